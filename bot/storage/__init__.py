"""Everything the bot keeps in Redis.

The only importer of redis; knows no GitHub call.
Start at `runs.py`, then `lease.py`.
"""
