"""A machine that explores: it runs commands in fresh sealed checkouts until it submits an edit.

Start at `machine.py`.
"""
