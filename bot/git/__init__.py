"""Clones, commits and pushes: everything the bot does with git.

Imports `pipeline.codebase` and the data at the bottom of `bot`.
Start at `mirrors.py`.
"""
