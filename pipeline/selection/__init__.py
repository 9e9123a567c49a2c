"""Chooses the right edit: by votes, the repository's own tests and the selection machine."""
