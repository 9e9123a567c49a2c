"""Runs beside the repository's tests, inside the sandbox: Python 3.6 and the standard library."""
