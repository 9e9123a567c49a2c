"""Normalises edits, so that equivalent edits become equal.

Imports edits and syntax; asks no model.
Start at `canonical.py`.
"""
