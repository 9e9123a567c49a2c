"""What people tell us in comments: the grammar, the verbs, and what each does."""
