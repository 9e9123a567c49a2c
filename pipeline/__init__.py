"""The algorithm: an issue and a codebase in; a chosen edit with its evidence, or an honest no, out.

Knows no GitHub, Redis, queue or environment variable; imports `sandbox` and `prompts`.
Start at `solve.py` (the whole on one page), then `machine.py` (the one loop).
"""
