"""Plain frozen data of the GitHub side: no client, no input or output."""
