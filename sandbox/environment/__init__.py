"""Derives the installation of a repository's environment from its files.

Files in, a recipe out; uses no Docker. Start at `recipe.py`.
"""
