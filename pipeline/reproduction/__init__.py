"""The reproduction test: the rungs from the edit's own tests down to the bare script.

Imports the repository's runners, edits and data; no other stage. Start at `red_green.py`.
"""
