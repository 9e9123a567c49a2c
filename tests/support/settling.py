"""Waiting for what others do, at little cost: the longer it takes, the less often it is asked."""

import asyncio
import time
from typing import Final

from bot.queue.jobs import RunQueue
from bot.queue.worker import Worker
from bot.settings import Settings
from bot.storage.storage import Storage

SHORTEST_PAUSE: Final = 0.02
LONGEST_PAUSE: Final = 0.25


class Pauses:
    """The pauses of one wait: each about a tenth of what has been waited."""

    def __init__(self) -> None:
        self._began = time.monotonic()

    async def pause(self) -> None:
        waited = time.monotonic() - self._began
        await asyncio.sleep(min(max(waited / 10, SHORTEST_PAUSE), LONGEST_PAUSE))


async def settle(worker: Worker, settings: Settings, seconds: float) -> None:
    """Let a worker work until no run is active and no command is left, then stop it.

    Raises:
        TimeoutError: some still were after `seconds`.
    """
    running = asyncio.create_task(worker.run())
    try:
        async with (
            asyncio.timeout(seconds),
            Storage.open(settings.redis_url, settings.redis_prefix, timeout=60) as storage,
        ):
            pauses = Pauses()
            while not running.done() and (
                await storage.runs.list_active() or await RunQueue(storage).count_requests()
            ):
                await pauses.pause()
    finally:
        worker.stop()
        await running
