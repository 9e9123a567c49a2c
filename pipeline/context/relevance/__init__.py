"""The scout reads every file and judges whether it matters (CodeMonkeys, section 3.1).

Imports models, prompts and plain data.
Start at `reader.py`.
"""
