"""What stands around a model: metering, throttling, fallback, cache warm-up.

Each is a `Model` that holds another.
Start at `base.py`.
"""
