"""What executions show: how often right and wrong ones pass a test of the issue, and
break the repository's own.

Imports grading and data sets. Start at `record.py`, then `fit.py`.
"""
