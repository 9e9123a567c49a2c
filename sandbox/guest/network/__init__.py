"""What runs beside a build, in containers of our own: its way out, and a cache of the index.

Only our own code runs there. Start at `egress.py`.
"""
