"""A GitHub Enterprise Server in one process: state, REST, git over HTTP, signed webhooks, pages.

The demo and the end-to-end tests run against it. It imports no other package of ours.
Start at `hub.py`.
"""

from __future__ import annotations

from bot.localhub.hub import LocalHub
from bot.localhub.identity import AppIdentity, generate_app
from bot.localhub.state import CheckRun, Comment, Exchange, Issue, Pull, Repo, User
from bot.localhub.webhooks import Delivery

__all__ = [
    "AppIdentity",
    "CheckRun",
    "Comment",
    "Delivery",
    "Exchange",
    "Issue",
    "LocalHub",
    "Pull",
    "Repo",
    "User",
    "generate_app",
]
