"""Decides which run a worker takes up next, and keeps it moving.

A job of arq carries out a request, or tells a worker to look for a run. Which run that is, and who
works on it, is for the leases in Redis to say, because a run lasts for hours, moves to another
worker within seconds when its own dies, can be stopped, and waits its turn among owners, while a
job of arq is its worker's until it ends or times out.

Imports storage, webhooks and GitHub; arq is imported in `jobs.py` only.
Start at `attempt.py`.
"""
