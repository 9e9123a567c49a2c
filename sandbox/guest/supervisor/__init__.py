"""Process 1 of a warm container: many executions, each in new namespaces.

Runs inside the container on the system's Python; imports only the standard library and
`sandbox.output`. Start at `serve.py`; then `watch.py` (one execution, seen from outside),
`process.py` (its two processes), `mounts.py` (its file system), `seccomp.py` (its system calls) and
`edit_layers.py` (edits as overlay layers).
"""
