"""One worker's go at one run: from taking it up to its end, or to handing it on."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from datetime import timedelta
from typing import Final

from bot.errors import LeaseLost, TryLater
from bot.queue.handler import RunHandler
from bot.storage.lease import Lease
from bot.types import Failure, Run, RunStatus, Stop, StopReason, now, replace
from pipeline.concurrency import race, shield

MAX_FRUITLESS_STARTS: Final = 5
STOP_POLL_SECONDS: Final = 0.5
"""How often a run that is worked on is asked whether it is to stop."""

HandleRun = Callable[[Run, Lease], Awaitable[Run]]

logger = logging.getLogger(__name__)


class RunAttempt:
    """Made with the lease just taken; `run` ends with the lease let go of, or lost."""

    def __init__(
        self,
        lease: Lease,
        handler: RunHandler,
        *,
        patience_seconds: float,
        poll_seconds: float = STOP_POLL_SECONDS,
    ) -> None:
        self.lease = lease
        self._runs = lease.storage.runs
        self._handler = handler
        self._patience = timedelta(seconds=patience_seconds)
        self._poll_seconds = poll_seconds

    async def run(self) -> None:
        """Do the run. Cancelled, it first hands the run back for another worker to take up."""
        run_id = self.lease.run.id
        try:
            async with self.lease.hold():
                try:
                    await self._proceed(self.lease.run)
                except asyncio.CancelledError:
                    if not self.lease.lost:
                        await shield(self._hand_back(self.lease.run))
                    raise
        except LeaseLost:
            logger.warning("Run %s: the lease was lost; another worker goes on.", run_id)

    async def _proceed(self, run: Run) -> None:
        stop = run.stop or await self._find_stop()
        if isinstance(stop, TryLater):
            await self._postpone(stop)
            return
        if stop is not None:
            await self._stop(run, stop)
            return
        if run.failure is not None:  # decided before, but the maintainer could not be told
            await self._fail(run, run.failure)
            return
        run = await self._count_start(run)
        if run.fruitless_starts > MAX_FRUITLESS_STARTS:
            await self._fail(run, Failure.NO_PROGRESS)
            return
        await self.lease.save(run)
        logger.info("Run %s: start %d on %s", run.id, run.starts, run.repo.full_name)
        ended = await race(self._try(self._handler.handle), self._wait_for_stop())
        if isinstance(ended, Stop):
            await self._stop(self.lease.run, ended)
        elif isinstance(ended, TryLater):
            await self._postpone(ended)
        elif ended is None or not ended.status.final:
            await self._fail(self.lease.run, Failure.INTERNAL)
        else:
            await self._finish(ended)

    async def _count_start(self, run: Run) -> Run:
        progress = await self._runs.count_checkpoints(run.id)
        moved = progress > run.checkpoints
        return replace(
            run,
            status=RunStatus.RUNNING,
            starts=run.starts + 1,
            started_at=run.started_at or now(),
            checkpoints=progress,
            fruitless_starts=1 if moved else run.fruitless_starts + 1,
            waiting_since=None if moved else run.waiting_since,
            not_before=None,
        )

    async def _postpone(self, later: TryLater) -> None:
        run = self.lease.run
        moved = await self._runs.count_checkpoints(run.id) > run.checkpoints
        since = now() if moved or run.waiting_since is None else run.waiting_since
        if now() - since >= self._patience:
            await self._fail(run, later.reason)
        else:
            logger.warning("Run %s: waits: %s: %s", run.id, later, later.__cause__)
            await self.lease.release(_to_waiting(run, later, since=since))

    async def _fail(self, run: Run, failure: Failure) -> None:
        """Decide the failure, tell the maintainer; if that must wait, another attempt tells."""
        known_since = run.waiting_since if run.failure else None
        since = known_since or now()
        decided = replace(
            run, failure=failure, status=RunStatus.RUNNING, waiting_since=since, not_before=None
        )
        await self.lease.save(decided)
        logger.warning("Run %s failed: %s", run.id, failure.value)
        await self._report_end(decided, self._handler.fail, RunStatus.FAILED)

    async def _stop(self, run: Run, stop: Stop) -> None:
        """Decide that the run is stopped, and report it like a failure."""
        since = run.waiting_since if run.stop else None
        decided = replace(
            run,
            stop=stop,
            status=RunStatus.RUNNING,
            waiting_since=since or now(),
            not_before=None,
        )
        await self.lease.save(decided)
        logger.info("Run %s: to stop: %s", run.id, stop.why.value)
        await self._report_end(decided, self._handler.stop, RunStatus.STOPPED)

    async def _report_end(self, decided: Run, end: HandleRun, status: RunStatus) -> None:
        """Report a decided end; `status` is what it is if nobody can be told."""
        since = decided.waiting_since or now()
        outcome = await self._try(end)
        if isinstance(outcome, TryLater):
            if now() - since < self._patience:
                await self.lease.release(_to_waiting(decided, outcome, since=since))
                return
            logger.error("Run %s: the maintainer could not be told: %s", decided.id, outcome)
            outcome = None
        ended = outcome or self.lease.run
        await self._finish(ended if ended.status.final else replace(ended, status=status))

    async def _find_stop(self) -> Stop | TryLater | None:
        """Who wants the run to stop; a hint that turns out to be wrong is forgotten."""
        run = self.lease.run
        if run.end_reported:  # we take the label off ourselves then
            return None
        stop = await self._runs.get_stop(run.id)
        if stop is None or stop.why is StopReason.COMMAND:
            return stop
        try:
            if await self._handler.is_still_valid(run, stop):
                return stop
        except TryLater as later:
            return later
        await self._runs.drop_stop(run.id, stop)
        return None

    async def _wait_for_stop(self) -> Stop | TryLater:
        while (stop := await self._find_stop()) is None:  # noqa: ASYNC110 - any process may ask
            await asyncio.sleep(self._poll_seconds)
        return stop

    async def _try(self, act: HandleRun) -> Run | TryLater | None:
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
        await self.lease.finish(replace(run, finished_at=run.finished_at or now(), not_before=None))
        logger.info("Run %s: %s", run.id, run.status.value)

    async def _hand_back(self, run: Run) -> None:
        """A worker that is told to stop is no fault of the run's: the start does not count."""
        await self.lease.release(_forgive_start(replace(run, status=RunStatus.QUEUED)))
        logger.info("Run %s: handed back", run.id)


def _to_waiting(run: Run, later: TryLater, *, since: object) -> Run:
    waiting = replace(
        run,
        status=RunStatus.QUEUED,
        not_before=now() + timedelta(seconds=later.after),
        waiting_for=later.reason,
        waiting_since=since,
    )
    # What is nobody else's fault may fail in the same way for ever: those starts are counted.
    return waiting if later.reason is Failure.INTERNAL else _forgive_start(waiting)


def _forgive_start(run: Run) -> Run:
    return replace(run, fruitless_starts=max(0, run.fruitless_starts - 1))
