"""The host side of executions, for every backend: sessions, warm containers, scheduling.

Imports the sandbox's plain data and no backend.
Start at `session.py`.
"""
