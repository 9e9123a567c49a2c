"""Ends runs that are to stop and that nobody works on: a stop waits for no slot."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from typing import Final

from bot.storage.client import UNREACHABLE, Outage
from bot.storage.runs import Runs
from bot.types import RunId

POLL_SECONDS: Final = 1.0
MAX_CONCURRENT: Final = 8
"""Stops that one worker reports side by side."""
RETRY_SECONDS: Final = 30.0
"""After which a stop that could not be reported is tried again; GitHub may not answer."""

StopIdleRun = Callable[[RunId], Awaitable[bool]]
"""Ends the run if it is still to stop; False: somebody works on it. Raises redis-py's errors."""


class IdleStops:
    """One for each worker."""

    def __init__(self, runs: Runs, stop: StopIdleRun, outage: Outage) -> None:
        self._runs = runs
        self._stop = stop
        self._outage = outage
        self._not_before: dict[RunId, float] = {}

    async def run(self) -> None:
        """Look every second, until cancelled."""
        while True:
            try:
                await self.stop_all()
            except UNREACHABLE as error:
                await self._outage.wait(error)
            await asyncio.sleep(POLL_SECONDS)

    async def stop_all(self) -> None:
        """Try each run that is to stop, one time. Raises redis-py's errors."""
        stopping = await self._runs.list_stopping()
        clock = time.monotonic()
        due = [run_id for run_id in stopping if self._not_before.get(run_id, 0) <= clock]
        self._not_before = {
            run_id: at for run_id, at in self._not_before.items() if run_id in stopping
        }
        slots = asyncio.Semaphore(MAX_CONCURRENT)

        async def stop(run_id: RunId) -> None:
            async with slots:
                if await self._stop(run_id):
                    self._not_before[run_id] = clock + RETRY_SECONDS

        tasks = [asyncio.create_task(stop(run_id)) for run_id in due]
        try:
            for task in tasks:
                await task
        finally:
            for task in tasks:
                task.cancel()
            if tasks:
                await asyncio.wait(tasks)
