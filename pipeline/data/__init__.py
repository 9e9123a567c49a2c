"""Plain frozen data of the algorithm."""
