"""The repository's own tests as judges of edits: finds, selects and runs them, and compares
results."""
