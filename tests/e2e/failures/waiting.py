"""A worker beside the test, and what the test waits for meanwhile."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Final

import time_machine

from bot.bootstrap import build_worker
from bot.types import Failure, Run, now
from bot.worker import Worker
from tests.e2e.harness import SECONDS, BotHarness

STEP_SECONDS: Final = 60.0
"""By how much a clock is moved at once, at least."""


@asynccontextmanager
async def at_work(bot: BotHarness) -> AsyncGenerator[Worker]:
    """A worker runs in the block; a model that is away makes its run wait, not the test."""
    async with build_worker(bot.settings, model_waits=()) as worker:
        task = asyncio.create_task(worker.run())
        try:
            yield worker
        finally:
            worker.stop()
            await task


async def until(true: Callable[[], Awaitable[object]], seconds: float = SECONDS) -> None:
    """Wait until `true()`."""
    async with asyncio.timeout(seconds):
        while not await true():
            await asyncio.sleep(0.02)


async def ended(bot: BotHarness, run: Run) -> Run:
    """The run as it ended; by then whatever else was to be done is done too."""
    await until(lambda: _quiet(bot))
    found = await bot.runs.get(run.id)
    assert found is not None
    assert found.status.final
    return found


async def _quiet(bot: BotHarness) -> bool:
    return not await bot.runs.list_active()


class Clock:
    """The time of day in this process, which the test moves instead of waiting."""

    def __init__(self, traveller: time_machine.Traveller) -> None:
        self._traveller = traveller
        self.moved = 0.0
        """Seconds."""

    def ahead(self, seconds: float) -> None:
        self._traveller.shift(seconds)
        self.moved += seconds


async def sit_out(
    bot: BotHarness, run: Run, clock: Clock, reason: Failure, seconds: float
) -> list[Run]:
    """Let `seconds` pass while the run waits for `reason`: how it stood each time that it waited.

    At the end it waits still.
    """
    stood: list[Run] = []

    async def waits() -> bool:
        found = await bot.runs.get(run.id)
        assert found is not None
        assert not found.status.final, found
        if found.not_before is None or found.not_before <= now():
            return False
        assert found.waiting_for is reason, found
        stood.append(found)
        return True

    while True:
        await until(waits)
        if clock.moved >= seconds:
            return stood
        assert stood[-1].not_before is not None
        clock.ahead(max(STEP_SECONDS, (stood[-1].not_before - now()).total_seconds()))
