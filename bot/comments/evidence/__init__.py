"""What a person reads of the evidence: the opening, the table of edits, how a test ended.

Start at `opening.py`.
"""
