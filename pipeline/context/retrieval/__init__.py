"""Finds files by words, without a model. Start at `retrieve.py`."""
