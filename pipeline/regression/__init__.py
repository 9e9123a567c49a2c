"""The repository's own tests as a judge of edits: which there are, which matter, what broke."""
