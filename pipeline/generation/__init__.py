"""Reproduction scripts and candidate edits: the testing, editing and reproduction machines."""
