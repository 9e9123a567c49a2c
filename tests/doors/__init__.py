"""The doors: all that people and programs outside rely on, which no change may move unnoticed.

Seen from outside, through `bot.cli:main`, `python -m bot`, `bot.settings`, files and sockets; the
one file that imports more of ours is `internal.py`. What is expected is kept in `expected/`:
delete a file there and run its test again to make it anew. Whoever edits one changes a promise.
"""
