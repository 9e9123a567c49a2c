"""Decides what an event asks the bot to do.

Pure: no network, no storage.
Start at `decide.py`.
"""
