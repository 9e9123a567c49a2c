"""Which files of a repository are source, and how they are cut into chunks.

Imports the codebase and plain data.
Start at `sources.py`.
"""
