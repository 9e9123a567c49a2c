"""Adapts the number of parallel calls to a server: more while it keeps up, half when it does not.

Additive increase, multiplicative decrease, as TCP does it (RFC 5681).
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager

from pipeline.models.base import Model, ModelRequest, ModelUnavailable, Reply
from pipeline.models.wrappers.base import ModelWrapper
from pipeline.models.wrappers.throttled import RETRY_WAITS

_INITIAL_SIZE = 4
_MAX_ATTEMPTS = 12
"""A request that fails this often is given up, however well the server serves others."""


class ConcurrencyWindow:
    """The number of parallel calls to one server. Several models may share it."""

    def __init__(self, most: int, *, start: int = _INITIAL_SIZE) -> None:
        self.size = float(min(start, most))
        """Between 1 and `most`; the calls in flight never exceed it, rounded down."""
        self.served = 0
        """How many calls have been answered."""
        self._most = most
        self._running = self._waiting = 0
        self._started = 0
        self._started_at_shrink = 0
        """How many calls had begun when the window last shrank."""
        self._room = asyncio.Condition()

    @asynccontextmanager
    async def slot(self) -> AsyncGenerator[int]:
        """Wait for room; yields the call's number, for `record_success` and `record_overload`."""
        async with self._room:
            self._waiting += 1
            try:
                await self._room.wait_for(lambda: self._running < int(self.size))
            finally:
                self._waiting -= 1
            self._running += 1
            self._started += 1
            number = self._started
        try:
            yield number
        finally:
            self._running -= 1
            async with self._room:
                self._room.notify(max(0, int(self.size) - self._running))

    def record_success(self) -> None:
        """Grow: by one per call until the first overload, then by one per round of calls."""
        self.served += 1
        # If the window was not full, it was not what held us back.
        if self._waiting or self._running >= int(self.size):
            self.size = min(
                self._most, self.size + (1 / self.size if self._started_at_shrink else 1)
            )

    def record_overload(self, number: int) -> None:
        """Halve the window, once for all calls that were in flight together."""
        if number > self._started_at_shrink:
            self._started_at_shrink = self._started
            self.size = max(1.0, self.size / 2)


class AdaptiveModel(ModelWrapper):
    """A `Model` whose calls wait for room in a `ConcurrencyWindow` and are repeated when the server
    is busy.
    """

    def __init__(
        self, model: Model, window: ConcurrencyWindow, *, waits: Sequence[float] = RETRY_WAITS
    ) -> None:
        super().__init__(model)
        self._window = window
        self._waits = tuple(waits)

    async def complete(self, request: ModelRequest) -> Reply:
        """ModelUnavailable is raised after every wait when nobody was served meanwhile: then the
        server is away, and not merely busy.
        """
        tries = failures = 0
        served = self._window.served
        while True:
            async with self._window.slot() as number:
                try:
                    reply = await self.model.complete(request)
                except ModelUnavailable:
                    self._window.record_overload(number)
                    tries += 1
                    failures = 1 if self._window.served > served else failures + 1
                    if failures > len(self._waits) or tries >= _MAX_ATTEMPTS:
                        raise
                else:
                    self._window.record_success()
                    return reply
            served = self._window.served
            await asyncio.sleep(self._waits[failures - 1])
