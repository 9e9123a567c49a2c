"""Clients of model services.

The only importers of the model SDKs; SDK errors are translated into ours.
Start at `anthropic.py`.
"""
