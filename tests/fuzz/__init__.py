"""Fuzzers for every parser of untrusted input: `make fuzz`. Start at `targets.py`."""
