"""Everything the bot keeps in Redis.

The only importer of redis; it calls no GitHub. Start at `storage.py`, then `runs.py`, `lease.py`.
"""
