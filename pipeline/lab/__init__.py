"""How well edits are chosen: the papers' tables and figures from predictions or runs with labels.

Imports the stages' pure parts; asks no model and runs nothing. Start at `scoring`.
"""
