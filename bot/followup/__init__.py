"""Follows up our pull requests while they are open: reviews, conflicts, evidence, draft state.

Imports runs, admission, comments, runner and storage; every step can run again.
Start at `run.py`.
"""
