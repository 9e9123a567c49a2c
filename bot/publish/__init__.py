"""Turns a chosen edit into a branch and a pull request.

Imports comments, git, GitHub and storage; knows no queue or worker.
Start at `publish.py`.
"""
