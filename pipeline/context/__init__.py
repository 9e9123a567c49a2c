"""Which files matter: relevance by the scout, ranking by the solver, cut to a token budget."""
