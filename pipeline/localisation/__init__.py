"""Searches for the cause before edits are drawn (SWE-Reasoner, section 2.2.1).

Start at `tree_search.py`, then `stages.py`.
"""
