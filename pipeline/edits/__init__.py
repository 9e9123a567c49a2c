"""Edits in every form: reply blocks, patches, unified diffs, edits from outside.

Imports the codebase and plain data.
Start at `read.py`.
"""
