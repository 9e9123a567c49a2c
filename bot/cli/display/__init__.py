"""What a command shows on standard error while it works. Start at `open.py`."""
