"""A model service that answers from a recording. Start at `server.py`."""
