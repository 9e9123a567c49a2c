"""Decides which run a worker takes up next, and keeps it moving.

arq is a doorbell: its jobs only tell a worker to look for a run, which starts one in 40 ms instead
of at the next sweep. The queue itself is the runs and their leases in Redis, because a run lasts
for hours, moves to another worker within seconds when its own dies, can be stopped, and waits its
turn among owners, while a job of arq is its worker's until it ends or times out.

Imports storage, webhooks and GitHub; arq is imported in `nudges.py` only.
Start at `attempt.py`.
"""
