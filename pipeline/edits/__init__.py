"""Edits: reply blocks, patches, unified diffs, edits from outside. Start at `read.py`."""
