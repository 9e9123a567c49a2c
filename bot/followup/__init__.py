"""Looks after our own pull requests for as long as they are open: nothing is done once only."""
