"""A run's effects on GitHub: its start, its status comment, its modes, its end.

Imports admission, comments, queue, runner and storage.
Start at `context.py`.
"""
