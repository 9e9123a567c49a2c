"""Runs beside the repository's tests, inside the sandbox: Python 3.7 and the standard library."""
