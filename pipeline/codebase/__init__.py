"""A repository at one commit: its files, git objects and syntax. Start at `commit.py`."""
