"""JavaScript and TypeScript. Start at `install.py`."""
