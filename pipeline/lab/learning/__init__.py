"""Learning from solved issues: data, its filter, training rows, and what a trained model gains.

SWE-Reasoner (arXiv 2503.23803), sections 2.1 and 2.2.2. Imports no torch: `trainer` runs in an
interpreter of its own. Start at `records.py`, then `filtering.py`.
"""
