"""The run bundle: every prompt, reply, execution and vote of a run in one archive.

Imports the stages it replays; nothing in the pipeline imports it but evaluation.
Start at `write.py`, then `read.py`.
"""
