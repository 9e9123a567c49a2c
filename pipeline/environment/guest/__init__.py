"""Runs inside the sandbox: the standard library alone, Python 3.6 and newer."""
