"""Finds an environment in which the repository works. Start at `prepare.py`."""
