"""Runs code that nobody trusts. Imports none of our other packages; knows no issue and no model.

Start at `base.py` (what running a program means), then `docker/docker_engine.py` (how it is done).
"""
