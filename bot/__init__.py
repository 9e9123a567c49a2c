"""The GitHub side: hears, decides, remembers, publishes. Imports `pipeline` and `sandbox`.

Start at `solve_issue.py` (what happens to one issue).
"""
