"""Reads a repository and says how its environment is installed.

Plain text in, a recipe out; touches no Docker.
Start at `recipe.py`.
"""
