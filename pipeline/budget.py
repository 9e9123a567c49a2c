"""Ceilings on money: it is set aside before each call, and what was not needed is given back."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import NamedTuple, Protocol

from pipeline.concurrency import apart
from pipeline.errors import BudgetSpent

CALL_SECONDS = 900.0
"""After this time what was set aside for a call is free again, if nobody said what it cost."""


class Wish(NamedTuple):
    """What a call may cost, in US dollars."""

    least: float
    """With a reply that is long enough for most purposes; with less, the call is not made."""
    most: float
    """With the longest reply."""
    seconds: float = CALL_SECONDS
    """How long the call may take."""


class Slip(NamedTuple):
    """Money set aside."""

    name: str
    granted: float
    """US dollars, between the wish's least and most."""


class Purse(Protocol):
    """A ceiling that several runs share, for instance a repository's for a day."""

    async def reserve(self, wish: Wish) -> Slip:
        """Set money aside. Waits while calls in flight may still give enough back.

        Raises:
            BudgetSpent: too little is left.
        """
        ...

    async def settle(self, slip: Slip, dollars: float) -> None:
        """Count what the call cost, and give back the rest of what was set aside."""
        ...


class Reservation:
    """What is set aside for one call, until `settle`."""

    def __init__(self, budget: Budget, granted: float, shared: Slip | None) -> None:
        self.granted = granted
        self._budget = budget
        self._shared = shared
        self._open = True

    async def settle(self, dollars: float) -> None:
        """The call is over and cost so much. Only the first call of this counts."""
        if not self._open:
            return
        self._open = False
        await self._budget.settle(self, dollars, self._shared)


class Budget:
    """The ceiling of one run, and the purse that it shares with others, if there is one."""

    def __init__(self, ceiling: float, *, spent: float = 0.0, purse: Purse | None = None) -> None:
        self.ceiling = ceiling
        self.spent = spent
        self._held = 0.0
        self._purse = purse
        self._changed = asyncio.Condition()

    @asynccontextmanager
    async def reserved(self, wish: Wish) -> AsyncGenerator[Reservation]:
        """Money for one call. What is not settled in the block is given back after it.

        Raises:
            BudgetSpent: too little is left, even if no call in flight costs anything.
        """
        granted = await self._granted(wish)
        try:
            shared = await self._shared(wish, granted)
        except BaseException:
            await apart(self._release(granted))
            raise
        slip = Reservation(self, min(granted, shared.granted) if shared else granted, shared)
        await self._release(granted - slip.granted)
        try:
            yield slip
        finally:
            await apart(slip.settle(0.0))

    async def settle(self, slip: Reservation, dollars: float, shared: Slip | None) -> None:
        """For `Reservation`."""
        self.spent += dollars
        await self._release(slip.granted)
        if self._purse is not None and shared is not None:
            await self._purse.settle(shared, dollars)

    async def _shared(self, wish: Wish, granted: float) -> Slip | None:
        return await self._purse.reserve(wish._replace(most=granted)) if self._purse else None

    async def _granted(self, wish: Wish) -> float:
        async with self._changed:
            while True:
                left = self.ceiling - self.spent
                if left <= 0 or left < wish.least:
                    raise BudgetSpent(self.spent, self.ceiling)
                free = left - self._held
                if free > 0 and free >= wish.least:
                    granted = min(wish.most, free)
                    self._held += granted
                    return granted
                await self._changed.wait()

    async def _release(self, dollars: float) -> None:
        # Held money is never less than what was added to it, but for rounding.
        self._held = max(0.0, self._held - dollars)
        async with self._changed:
            self._changed.notify_all()
