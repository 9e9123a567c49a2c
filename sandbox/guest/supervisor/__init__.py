"""Process 1 of a lane: one container, many executions, each in a fresh world of its own.

Runs inside the container on the system's Python and knows only the standard library and
`sandbox.output`. Start at `serve.py`; then `watch.py` (one execution, seen from outside),
`process.py` (the two processes in the world), `mounts.py` (what the world is made of), `seccomp.py`
(the system calls it is left with) and `edit_layers.py` (edits as overlay layers).
"""
