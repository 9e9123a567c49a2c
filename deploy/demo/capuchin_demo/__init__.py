"""`capuchin demo`: fixes a real bug of a real package on a local GitHub."""
