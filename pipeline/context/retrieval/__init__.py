"""Finds files by words and by embeddings, without a model. Start at `retrieve.py`."""
