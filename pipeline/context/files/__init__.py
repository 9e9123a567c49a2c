"""Which files of a repository are source, and how they are cut. Start at `sources.py`."""
