"""Asks a batch service: cheaper, slower replies.

Imports model data only; the service is a protocol.
Start at `model.py`.
"""
