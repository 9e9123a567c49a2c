"""A repository at one commit: its files, git objects and syntax.

Imports plain data only.
Start at `commit.py`.
"""
