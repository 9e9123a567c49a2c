"""Which edit is right: votes, the repository's own tests, the selection machine."""
