"""The local hub's git repositories, and git over HTTP.

Runs the real git; imports only modules of the hub.
Start at `repo.py`.
"""
