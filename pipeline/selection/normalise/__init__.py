"""Brings edits to a form in which equal ones look equal.

Imports edits and syntax; asks no model.
Start at `canonical.py`.
"""
