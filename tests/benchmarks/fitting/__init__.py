"""Offline fits of the weights that the product ships (scipy)."""
