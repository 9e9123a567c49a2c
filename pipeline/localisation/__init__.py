"""Searches for the place of the cause before edits are drawn (SWE-Reasoner, section 2.2.1).

Imports the stages whose parts it uses; workflows import it.
Start at `tree_search.py`, then `stages.py`.
"""
