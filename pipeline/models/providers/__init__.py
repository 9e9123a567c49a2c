"""Clients of model services: the only importers of the SDKs. Start at `anthropic.py`."""
