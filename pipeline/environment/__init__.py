"""Finds an environment in which the repository really works, and grades its health.

Imports the sandbox's engine, models, prompts and the repository's own tests.
Start at `prepare.py`.
"""
