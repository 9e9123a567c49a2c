"""Scores candidates without a model. Start at `standings.py`."""
