"""One worker's go at one run: from taking it up to its end, or to handing it on."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from datetime import timedelta
from typing import Final

from bot.errors import LeaseLost, TryLater
from bot.lease import Lease
from bot.redis_client import patiently
from bot.runs import Runs
from bot.types import Failure, Run, RunStatus, changed, now

Work = Callable[[Run, Lease], Awaitable[Run]]
"""Does a run, and returns its record with a final status, the maintainer told.

Raises:
    TryLater: something it needs does not answer; it will be called again.
    LeaseLost: from the lease itself.
"""

GiveUp = Callable[[Run, Lease], Awaitable[Run]]
"""Tells the maintainer of a run that failed for `run.failure`; returns its record. Raises as Work.

Called again if it raised TryLater or its worker died: its effects are find-or-create, too.
"""

MAX_FRUITLESS_STARTS: Final = 5

logger = logging.getLogger(__name__)


class Attempt:
    """Made with the lease just taken; `go` ends with the lease let go of, or lost."""

    def __init__(
        self, lease: Lease, runs: Runs, *, work: Work, give_up: GiveUp, patience_seconds: float
    ) -> None:
        self.lease = lease
        self._runs = runs
        self._work = work
        self._give_up = give_up
        self._patience = timedelta(seconds=patience_seconds)

    async def go(self) -> None:
        """Do the run. Cancelled, it first hands the run back for another worker to take up."""
        run_id = self.lease.run.id
        try:
            async with self.lease.kept():
                try:
                    await self._do(self.lease.run)
                except asyncio.CancelledError:
                    if not self.lease.lost:
                        await self._hand_back(self.lease.run)
                    raise
        except LeaseLost:
            logger.warning("Run %s: the lease was lost; another worker goes on.", run_id)

    async def _do(self, run: Run) -> None:
        if run.failure is not None:  # decided before, but the maintainer could not be told
            await self._fail(run, run.failure)
            return
        run = await self._started(run)
        if run.fruitless_starts > MAX_FRUITLESS_STARTS:
            await self._fail(run, Failure.NO_PROGRESS)
            return
        await self.lease.save(run)
        logger.info("Run %s: start %d on %s", run.id, run.starts, run.repo.full_name)
        ended = await self._outcome(self._work)
        if isinstance(ended, TryLater):
            await self._wait(ended)
        elif ended is None or not ended.status.final:
            await self._fail(self.lease.run, Failure.INTERNAL)
        else:
            await self._finish(ended)

    async def _started(self, run: Run) -> Run:
        progress = await patiently(lambda: self._runs.checkpoints(run.id))
        moved = progress > run.checkpoints
        return changed(
            run,
            status=RunStatus.RUNNING,
            starts=run.starts + 1,
            started_at=run.started_at or now(),
            checkpoints=progress,
            fruitless_starts=1 if moved else run.fruitless_starts + 1,
            waiting_since=None if moved else run.waiting_since,
            not_before=None,
        )

    async def _wait(self, later: TryLater) -> None:
        run = self.lease.run
        moved = await patiently(lambda: self._runs.checkpoints(run.id)) > run.checkpoints
        since = now() if moved or run.waiting_since is None else run.waiting_since
        if now() - since >= self._patience:
            await self._fail(run, later.reason)
        else:
            logger.warning("Run %s: waits: %s", run.id, later)
            await self.lease.give_back(_waiting(run, later, since=since))

    async def _fail(self, run: Run, failure: Failure) -> None:
        """Decide the failure, tell the maintainer; if that must wait, another attempt tells."""
        told_since = run.waiting_since if run.failure else None
        since = told_since or now()
        decided = changed(
            run, failure=failure, status=RunStatus.RUNNING, waiting_since=since, not_before=None
        )
        await self.lease.save(decided)
        logger.warning("Run %s failed: %s", run.id, failure.value)
        told = await self._outcome(self._give_up)
        if isinstance(told, TryLater):
            if now() - since < self._patience:
                await self.lease.give_back(_waiting(decided, told, since=since))
                return
            logger.error("Run %s: the maintainer could not be told: %s", run.id, told)
            told = None
        await self._finish(changed(told or self.lease.run, status=RunStatus.FAILED))

    async def _outcome(self, act: Work) -> Run | TryLater | None:
        """What `act` makes of the run as last saved; None when it failed through a bug."""
        run = self.lease.run
        try:
            return await act(run, self.lease)
        except TryLater as later:
            return later
        except LeaseLost:
            raise
        except Exception:  # the outermost edge of a run
            logger.exception("Run %s: a bug", run.id)
            return None

    async def _finish(self, run: Run) -> None:
        await self.lease.finish(changed(run, finished_at=run.finished_at or now(), not_before=None))
        logger.info("Run %s: %s", run.id, run.status.value)

    async def _hand_back(self, run: Run) -> None:
        """A worker that is told to stop is no fault of the run's: the start does not count."""
        await self.lease.give_back(_unpunished(changed(run, status=RunStatus.QUEUED)))
        logger.info("Run %s: handed back", run.id)


def _waiting(run: Run, later: TryLater, *, since: object) -> Run:
    return _unpunished(
        changed(
            run,
            status=RunStatus.QUEUED,
            not_before=now() + timedelta(seconds=later.after),
            waiting_for=later.reason,
            waiting_since=since,
        )
    )


def _unpunished(run: Run) -> Run:
    return changed(run, fruitless_starts=max(0, run.fruitless_starts - 1))
