"""A GitHub Enterprise Server in one process."""
