"""The host side of executions, whatever the backend: sessions, warm containers, scheduling.

Imports plain data of the sandbox; no backend.
Start at `session.py`.
"""
