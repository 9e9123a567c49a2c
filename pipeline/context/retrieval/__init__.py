"""Finds files by words and by embeddings, without a model reading them.

Imports `context.files` and plain data.
Start at `retrieve.py`.
"""
