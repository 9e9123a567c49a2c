"""Announces to the author of each queued run its position and the expected wait."""

from __future__ import annotations

import logging
import statistics
from collections.abc import Awaitable, Callable
from datetime import timedelta
from typing import Final

from bot.errors import LeaseLost, TryLater
from bot.queue.nudges import Nudges
from bot.storage.lease import Lease
from bot.storage.storage import Storage
from bot.types import QueuePosition, Run, RunStatus, now, replace

Announce = Callable[[Lease, QueuePosition], Awaitable[Run]]
"""Tells on the issue how its run waits; the run with its comment. Raises LeaseLost, TryLater."""

MIN_WAIT: Final = timedelta(seconds=3)
"""A run that nobody takes up for this long waits for a worker to have time."""
MAX_ANNOUNCED: Final = 20
"""How many positions are announced; runs further back follow when they move up."""
LEASE_SECONDS: Final = 30.0

logger = logging.getLogger(__name__)


class QueueAnnouncer:
    """The queue as those in it see it."""

    def __init__(self, storage: Storage, nudges: Nudges, announce: Announce) -> None:
        self._storage = storage
        self._runs = storage.runs
        self._nudges = nudges
        self._announce = announce

    async def announce(self) -> None:
        """Tell each run at the front whose place has changed. Raises redis-py's errors."""
        queue = [run async for run in self._runs.list_idle() if _is_unstarted(run)]
        queue.sort(key=lambda run: (run.created_at, run.id))
        at_work = len(await self._runs.list_active()) - len(queue)
        seconds = await self._load_usual_seconds()
        for place, run in enumerate(queue[:MAX_ANNOUNCED], 1):
            if run.queue_position == place or now() - run.created_at < MIN_WAIT:
                continue
            # As if each worker began the next as soon as it ends one: on average half-way through.
            rounds = (place - 0.5) / max(at_work, 1)
            expected = None if seconds is None else seconds * rounds
            await self._announce_position(
                run.id, QueuePosition(position=place, expected_seconds=expected)
            )

    async def _load_usual_seconds(self) -> float | None:
        taken = await self._runs.list_durations()
        return statistics.median(taken) if taken else None

    async def _announce_position(self, run_id: str, position: QueuePosition) -> None:
        lease = await Lease.acquire(self._storage, run_id, worker="queue", seconds=LEASE_SECONDS)
        if lease is None:  # somebody begins it
            return
        try:
            run = await self._announce(lease, position)
            await lease.release(replace(run, queue_position=position.position))
        except TryLater as later:
            logger.warning("Run %s: could not be told its place: %s", run_id, later)
            await lease.release(lease.run)
        except LeaseLost:
            return
        # A nudge that came meanwhile found the run taken.
        await self._nudges.send_for(lease.run)


def _is_unstarted(run: Run) -> bool:
    is_exempt = run.failure or run.stop or run.mode.is_follow_up
    return run.status is RunStatus.QUEUED and run.starts == 0 and not is_exempt
