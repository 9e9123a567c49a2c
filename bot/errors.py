"""What can go wrong on the GitHub side; branches answer who can do something about it.

BotError
├── TryLater    passes by itself: the run goes back to the queue and is tried again
└── LeaseLost   nobody's: another worker has the run now, so this one must have no more effects
"""

from __future__ import annotations

from bot.types import Failure


class BotError(Exception):
    """Something went wrong that is neither the repository's fault nor a bug."""


class TryLater(BotError):
    """What the run needs does not answer now.

    `reason` is what the maintainer is told if it never comes back; `after` is in seconds.
    """

    def __init__(self, reason: Failure, after: float) -> None:
        super().__init__(f"{reason.value}; again in {after:.0f} s")
        self.reason = reason
        self.after = after


class LeaseLost(BotError):
    """This worker was silent for too long, and its run may be another's."""
