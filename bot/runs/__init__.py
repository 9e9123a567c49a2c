"""A run's effects on GitHub: its start, its status comment, its modes, its end.

Imports publish, admission, comments, queue, runner and storage.
Start at `context.py`.
"""
