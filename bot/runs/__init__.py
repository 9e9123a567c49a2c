"""What a run does on GitHub: its status comment, how it ends, its other modes.

Imports publish, admission, comments, queue, runner and storage.
Start at `context.py`.
"""
