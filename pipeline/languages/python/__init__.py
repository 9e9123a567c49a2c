"""Python. Start at `install.py`."""
