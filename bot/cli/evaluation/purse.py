"""The money of one evaluation, of which each run gets its ceiling before it begins."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager


class Grant:
    """Money for one run; what it does not spend goes back."""

    def __init__(self, dollars: float) -> None:
        self.dollars = dollars
        self.spent = dollars

    def spend(self, dollars: float) -> None:
        """Say what the run cost. Without that, all of the grant counts as spent."""
        self.spent = dollars


class Purse:
    """Never grants more than it holds, however many runs there are at a time."""

    def __init__(self, dollars: float | None, spent: float = 0.0) -> None:
        """`dollars`: the whole budget; None: without limit. `spent`: by earlier starts."""
        self._left = None if dollars is None else dollars - spent
        self._granted = 0
        self._changed = asyncio.Condition()

    @asynccontextmanager
    async def take(self, dollars: float) -> AsyncGenerator[Grant]:
        """Grant `dollars`, or what is left once no other run can give anything back."""
        async with self._changed:
            while self._left is not None and self._left < dollars and self._granted:
                await self._changed.wait()
            granted = dollars if self._left is None else max(0.0, min(dollars, self._left))
            self._settle(-granted, 1)
        grant = Grant(granted)
        try:
            yield grant
        finally:
            async with self._changed:
                self._settle(granted - grant.spent, -1)
                self._changed.notify_all()

    def _settle(self, dollars: float, runs: int) -> None:
        self._granted += runs
        if self._left is not None:
            self._left += dollars
