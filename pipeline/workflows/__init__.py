"""The steps between stages: sampling, reproduction, revision, verification.

Imports every stage; only `solve` and `select` import it.
Start at `sampling.py`.
"""
