"""The runs that one worker works on: so many of each lane at a time."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping
from typing import Final

from structlog.contextvars import bound_contextvars

from bot.queue.attempt import RunAttempt
from bot.queue.fair import order_fairly, owner_of
from bot.storage.client import UNREACHABLE
from bot.storage.lease import Lease
from bot.storage.storage import Storage
from bot.types import Lane, RunId

logger = logging.getLogger(__name__)

PULL_SLOTS: Final = 1
"""Runs on our own pull requests that a worker works on beside those of issues."""

Begin = Callable[[RunId], Awaitable[Lease | None]]
"""Takes the lease of a run; None if somebody else has it."""


class Slots:
    """Takes up runs in fair order while there is room."""

    def __init__(
        self,
        issue_slots: int,
        build_attempt: Callable[[Lease], RunAttempt],
        on_change: Callable[[], None],
    ) -> None:
        """`on_change` is called when the number of runs changes."""
        self.capacity: Mapping[Lane, int] = {Lane.ISSUES: issue_slots, Lane.PULLS: PULL_SLOTS}
        self.attempts: dict[asyncio.Task[None], RunAttempt] = {}
        self._build_attempt = build_attempt
        self._on_change = on_change
        self._locks = {lane: asyncio.Lock() for lane in Lane}
        self._closed = False

    def close(self) -> None:
        """Take up nothing any more."""
        self._closed = True

    def count(self, lane: Lane) -> int:
        """How many runs of the lane are worked on."""
        return sum(attempt.lease.run.mode.lane is lane for attempt in self.attempts.values())

    def is_full(self, lane: Lane) -> bool:
        return self._closed or self.count(lane) >= self.capacity[lane]

    async def fill(self, lane: Lane, storage: Storage, acquire: Begin) -> None:
        """Begin waiting runs of the lane, whose turn it is first, until no slot is free.

        While Redis does not answer nothing is begun: the worker asks again.
        """
        async with self._locks[lane]:
            if self.is_full(lane):
                return
            try:
                survey = await storage.active_runs.survey(lane)
                if not survey.idle:
                    return
                served = await storage.turns.list_served()
                for run in order_fairly(survey.idle, survey.working, served):
                    if self.is_full(lane):
                        return
                    lease = await acquire(run.id)
                    if lease is not None:
                        self._start(lease)
                        await storage.turns.mark_served(owner_of(run))
            except UNREACHABLE:
                return

    def _start(self, lease: Lease) -> None:
        run = lease.run
        with bound_contextvars(
            run=run.id, repository=run.repo.full_name, issue=run.issue, delivery=run.delivery
        ):
            attempt = self._build_attempt(lease)
            task = asyncio.create_task(attempt.run())
        self.attempts[task] = attempt
        task.add_done_callback(self._on_end)
        self._on_change()

    def _on_end(self, task: asyncio.Task[None]) -> None:
        del self.attempts[task]
        if not task.cancelled() and (error := task.exception()):
            logger.error("An attempt failed unexpectedly", exc_info=error)
        self._on_change()
