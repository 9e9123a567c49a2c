"""One check and its result."""

from __future__ import annotations

from bot.errors import BotError
from bot.types import Frozen


class HealthCheck(Frozen):
    """One check and its result."""

    name: str
    works: bool
    found: str
    mend: str = ""
    """What to do; empty if the check passed."""


class CheckFailed(BotError):
    """What was found, and what to do."""

    def __init__(self, found: str, mend: str) -> None:
        super().__init__(found)
        self.found = found
        self.mend = mend
