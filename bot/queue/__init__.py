"""Decides which run a worker takes up next, and keeps it moving.

Imports storage, triggers and GitHub; arq is imported in `nudges.py` only.
Start at `attempt.py`.
"""
