"""Clients of model services.

The only importers of the model SDKs; errors leave as ours.
Start at `anthropic.py`.
"""
