"""Installs a Python repository in its environment, by a plan that the host made.

It runs inside the build container and imports only the standard library. Start at `main.py`.
"""
