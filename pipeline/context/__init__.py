"""Finds the files that matter: the scout judges relevance, the solver ranks, a budget cuts."""
