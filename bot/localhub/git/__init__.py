"""The local hub's git repositories, and git over HTTP.

Runs the real git; imports only the hub's own modules.
Start at `repo.py`.
"""
