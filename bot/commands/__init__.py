"""Executes the commands that people give in comments.

Imports runs, follow-up, admission, comments, the queue and storage.
Start at `dispatch.py`; `verbs.py` ends with their table.
"""
