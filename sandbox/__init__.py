"""Runs code nobody trusts. Imports nothing else of ours; has never heard of an issue or a model.

Start at `base.py` (what running code means), then `docker.py` (how it is done).
"""
