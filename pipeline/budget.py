"""Ceilings on money: each call reserves its worst cost first and gives back what it did not use."""

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import NamedTuple, Protocol

from pipeline.concurrency import shield
from pipeline.run_errors import BudgetSpent

CALL_SECONDS = 900.0
"""After this many seconds a reservation that was never settled is released."""


class CostBounds(NamedTuple):
    """What a call may cost, in US dollars."""

    least: float
    """With a reply of usual length; the call is not made with less."""
    most: float
    """With the longest reply."""
    seconds: float = CALL_SECONDS


class Grant(NamedTuple):
    name: str
    dollars: float
    """US dollars, between the wish's least and most."""


class SharedBudget(Protocol):
    """A ceiling that several runs share, for instance a repository's for a day."""

    async def reserve(self, bounds: CostBounds) -> Grant:
        """Reserve money. Waits while calls in flight may still give enough back.

        Raises:
            BudgetSpent: too little is left.
        """
        ...

    async def settle(self, grant: Grant, dollars: float) -> None:
        """Count what the call cost, and release the rest of the reservation."""
        ...


class Reservation:
    """Money reserved for one call, until `settle`."""

    def __init__(self, budget: "Budget", dollars: float, shared: Grant | None) -> None:
        self.dollars = dollars
        self._budget = budget
        self._shared = shared
        self._open = True

    async def settle(self, dollars: float) -> None:
        """Record what the call cost. Only the first `settle` counts."""
        if not self._open:
            return
        self._open = False
        await self._budget.settle(self, dollars, self._shared)


class Budget:
    """The ceiling of one run, and a budget that it shares with other runs, if there is one."""

    def __init__(
        self,
        ceiling: float,
        *,
        spent: float = 0.0,
        shared: SharedBudget | None = None,
        find_raised: Callable[[], Awaitable[float]] | None = None,
    ) -> None:
        """`find_raised`: asked for the ceiling before a call is refused; people may raise it."""
        self.ceiling = ceiling
        self._find_raised = find_raised
        self.spent = spent
        self._reserved = 0.0
        self._shared_budget = shared
        self._changed = asyncio.Condition()

    @asynccontextmanager
    async def reserve(self, bounds: CostBounds) -> AsyncGenerator[Reservation]:
        """Reserve money for one call. What the block does not settle is released after it.

        Raises:
            BudgetSpent: too little is left, even if no call in flight costs anything.
        """
        granted = await self._reserve_own(bounds)
        try:
            shared = (
                await self._shared_budget.reserve(bounds._replace(most=granted))
                if self._shared_budget
                else None
            )
        except BaseException:
            await shield(self._release(granted))
            raise
        reservation = Reservation(self, min(granted, shared.dollars) if shared else granted, shared)
        await self._release(granted - reservation.dollars)
        try:
            yield reservation
        finally:
            await shield(reservation.settle(0.0))

    async def settle(self, reservation: Reservation, dollars: float, shared: Grant | None) -> None:
        """For `Reservation`."""
        self.spent += dollars
        await self._release(reservation.dollars)
        if self._shared_budget is not None and shared is not None:
            await self._shared_budget.settle(shared, dollars)

    async def _reserve_own(self, bounds: CostBounds) -> float:
        async with self._changed:
            while True:
                left = self.ceiling - self.spent
                if left <= 0 or left < bounds.least:
                    raised = await self._find_raised() if self._find_raised else 0.0
                    if raised > self.ceiling:
                        self.ceiling = raised
                        continue
                    raise BudgetSpent(self.spent, self.ceiling)
                free = left - self._reserved
                if free > 0 and free >= bounds.least:
                    granted = min(bounds.most, free)
                    self._reserved += granted
                    return granted
                await self._changed.wait()

    async def _release(self, dollars: float) -> None:
        # Held money is never less than what was added to it, but for rounding.
        self._reserved = max(0.0, self._reserved - dollars)
        async with self._changed:
            self._changed.notify_all()
