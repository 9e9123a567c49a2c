"""Process 1 of a lane: one container, many executions, each in a fresh world of its own.

Runs inside the container on the system's Python and knows only the standard library and
`sandbox.output`. Start at `serve.py`; then `watch.py` (one execution, seen from outside),
`inside.py` (the two processes in the world), `world.py` (what the world is made of), `filter.py`
(the system calls it is left with) and `deltas.py` (edits as overlay layers).
"""
