"""Edits in every form: reply blocks, patches, unified diffs, edits from elsewhere.

Imports the codebase and plain data.
Start at `read.py`.
"""
