"""Decides whether a run may begin, and what the model may read.

Imports comments, storage and GitHub.
Start at `check.py`.
"""
