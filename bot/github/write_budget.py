"""The limit of writes to one repository, as the client asks for it."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from typing import Final, Protocol

from bot.types import RepoRef

MINOR_SHARE: Final = 0.5
"""The part of the budget for what may wait: progress, and what strangers can cause."""


class WriteBudget(Protocol):
    """How often we may write to one repository in an hour: GitHub blocks who writes too often."""

    async def take(self, share: float) -> float:
        """Count a write. 0, or the seconds until there is another, if `share` of all is spent."""
        ...

    async def claim_notice(self, seconds: float) -> str:
        """The notice that writes go on in so many seconds; empty if it was claimed before."""
        ...


OpenWriteBudget = Callable[[RepoRef], AbstractAsyncContextManager[WriteBudget]]
