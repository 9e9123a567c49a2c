"""Sends requests to a provider's batch API: cheaper, slower replies.

Imports model data only; the service is a protocol.
Start at `model.py`.
"""
