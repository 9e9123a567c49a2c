"""A worker beside the test, and what the test waits for meanwhile."""

from __future__ import annotations

from typing import Final

import time_machine

from bot.data.run import Failure, Run, now
from tests.e2e.harness import BotHarness

STEP_SECONDS: Final = 120.0
"""By how much a clock is moved at once, at least."""


class TravellingClock:
    """The time of day in this process, which the test moves instead of waiting."""

    def __init__(self, traveller: time_machine.Traveller) -> None:
        self._traveller = traveller
        self.moved = 0.0
        """Seconds."""

    def ahead(self, seconds: float) -> None:
        self._traveller.shift(seconds)
        self.moved += seconds


async def sit_out(
    bot: BotHarness, run: Run, clock: TravellingClock, reason: Failure, seconds: float
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
        await bot.until(waits)
        if clock.moved >= seconds:
            return stood
        assert stood[-1].not_before is not None
        clock.ahead(max(STEP_SECONDS, (stood[-1].not_before - now()).total_seconds()))


async def until_asked(bot: BotHarness, call: str) -> None:
    """Wait until the pipeline has asked the model for `call`."""
    await bot.until(lambda: any(asked.call == call for asked in bot.llm.requests))
