"""Clones, commits and pushes: all work with git.

Imports `pipeline.codebase` and the data at the bottom of `bot`.
Start at `mirrors.py`.
"""
