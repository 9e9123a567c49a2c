"""Decides whether a run may begin, and which text the model may read.

Imports comments, storage and GitHub.
Start at `check.py`.
"""
