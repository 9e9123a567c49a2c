"""The run bundle: every prompt, reply, execution and vote of a run in one archive.

Imports the stages it replays; in the pipeline, only evaluation imports it.
Start at `write.py`, then `read.py`.
"""
