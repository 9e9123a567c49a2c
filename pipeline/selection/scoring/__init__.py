"""Scores candidates: standings, features, clusters, calibrated confidence.

Asks no model.
Start at `standings.py`.
"""
