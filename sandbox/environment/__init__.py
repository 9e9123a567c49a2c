"""Derives from a repository's files how its environment is installed.

Files in, a recipe out; uses no Docker. Start at `recipe.py`.
"""
