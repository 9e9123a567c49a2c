"""Wrappers around a model: metering, throttling, fallback, cache warm-up.

Each is a `Model` that wraps another.
Start at `base.py`.
"""
