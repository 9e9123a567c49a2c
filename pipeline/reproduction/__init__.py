"""The rungs from the edit's own tests down to the bare script. Start at `red_green.py`."""
