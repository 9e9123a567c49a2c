"""Builds environment images, where a repository's code runs with a network but without privileges.

Blocking: everything here runs in threads.
Start at `environment.py`.
"""
