"""One worker's go at one run, to its end or to handing it back."""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping
from datetime import timedelta
from typing import Final, Protocol

from structlog.contextvars import bound_contextvars

from bot.data.failure import Failure, FailureFacts
from bot.data.run import Mode, Run, RunStatus, Stop, StopReason, now
from bot.errors import LeaseLost, TryLater, describe_cause
from bot.storage.lease import Lease
from bot.telemetry.measurements import LEASES_LOST, QUEUE, RUN, RUN_DOLLARS
from pipeline.concurrency import race, shield
from pipeline.run_errors import UnreadableRecord
from sandbox.frozen import replace
from sandbox.observation import Kind, observe


class RunHandler(Protocol):
    """Works on the runs of some modes.

    Every effect is find-or-create: a worker may die at any moment, and another calls again.
    All methods but `is_still_valid` return the run's record with a final status.

    Raises, from every method:
        TryLater: something that the run needs does not answer; the worker calls again later.
        LeaseLost: another worker has the run.
    """

    async def handle(self, run: Run, lease: Lease) -> Run:
        """Work on the run to its end, and report the end to the maintainer."""
        ...

    async def fail(self, run: Run, lease: Lease) -> Run: ...

    async def stop(self, run: Run, lease: Lease) -> Run: ...

    async def is_still_valid(self, run: Run, stop: Stop) -> bool:
        """Whether GitHub still shows what `stop` hints at. Not asked about a stop by command."""
        ...


RunHandlers = Mapping[Mode, RunHandler]


logger = logging.getLogger(__name__)


def report_end(run: Run, cause: str) -> None:
    """Log one line with the run's status, the class of its failure and `cause`, and count it."""
    seconds = ((run.finished_at or now()) - (run.started_at or run.created_at)).total_seconds()
    RUN.labels(run.status.words).observe(seconds)
    RUN_DOLLARS.labels(run.status.words).observe(run.dollars)
    facts = {"status": run.status.words}
    if run.failure is not None:
        facts["failure"] = run.failure.value
    if cause and run.status is RunStatus.FAILED:
        facts["cause"] = cause
    level = logging.WARNING if run.status is RunStatus.FAILED else logging.INFO
    with bound_contextvars(**facts):
        logger.log(level, "Run %s ended after %.0f s and $%.2f", run.id, seconds, run.dollars)


MAX_FRUITLESS_STARTS: Final = 5
STOP_POLL_SECONDS: Final = 0.5
"""How often a run that is worked on is asked whether it is to stop."""

HandleRun = Callable[[Run, Lease], Awaitable[Run]]


class RunAttempt:
    """Made with a lease just taken; `run` ends with the lease released or lost."""

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
        run = self.lease.run
        with observe(Kind.RUN, run=run.id, mode=run.mode.value, starts=run.starts + 1) as event:
            await self._hold(self._proceed)
            event.facts["status"] = self.lease.run.status.words

    async def stop_if_wanted(self) -> None:
        """Stop the run if asked to; otherwise release it. This needs no slot."""
        await self._hold(self._stop_or_release)

    async def _hold(self, act: Callable[[Run], Awaitable[None]]) -> None:
        run_id = self.lease.run.id
        try:
            async with self.lease.hold():
                try:
                    await act(self.lease.run)
                except asyncio.CancelledError:
                    if not self.lease.lost:
                        await shield(self._hand_back(self.lease.run))
                    raise
        except LeaseLost:
            LEASES_LOST.inc()
            logger.warning("Run %s: the lease was lost; another worker continues.", run_id)

    async def _stop_or_release(self, run: Run) -> None:
        if not await self._end_stopped(run):
            await self._runs.forget_stopping(run.id)
            await self.lease.release(run)

    async def _end_stopped(self, run: Run) -> bool:
        """Whether nothing is left to do: the run was stopped, or GitHub must be asked later."""
        try:
            stop = run.stop or await self._find_stop()
        except TryLater as later:
            await self._postpone(later)
            return True
        if stop is not None:
            await self._stop(run, stop)
        return stop is not None

    async def _proceed(self, run: Run) -> None:
        if await self._end_stopped(run):
            return
        if run.failure is not None:  # decided before, but the maintainer could not be told
            await self._fail(run, run.failure)
            return
        if run.started_at is None:
            QUEUE.labels(run.mode.lane).observe((now() - run.created_at).total_seconds())
        run = await self._count_start(run)
        # A step that killed three workers may need more memory than there is, and each worker
        # that it kills has other runs, too.
        if run.fruitless_starts > MAX_FRUITLESS_STARTS or run.deaths >= 3:
            await self._fail(run, Failure.NO_PROGRESS)
            return
        await self.lease.save(run)
        logger.info("Run %s: start %d on %s", run.id, run.starts, run.repo.full_name)
        await self._work(run)

    async def _work(self, run: Run) -> None:
        try:
            ended = await race(self._try(self._handler.handle), self._wait_for_stop())
        except TryLater as later:
            await self._postpone(later)
            return
        except UnreadableRecord as error:  # such as what an earlier run of the issue saved
            logger.warning("Run %s: %s", run.id, error)
            self.lease.cause = describe_cause(error)
            unread = replace(self.lease.run, facts=FailureFacts(words=str(error)))
            await self._fail(unread, Failure.OTHER_FORMAT)
            return
        if isinstance(ended, Stop):
            await self._stop(self.lease.run, ended)
        elif ended is None or not ended.status.final:
            await self._fail(self.lease.run, Failure.INTERNAL)
        else:
            await self._finish(ended)

    async def _count_start(self, run: Run) -> Run:
        progress = await self._runs.count_checkpoints(run.id)
        moved = progress > run.checkpoints
        died = run.status is RunStatus.RUNNING  # a worker that ends by itself hands the run back
        return replace(
            run,
            deaths=0 if moved else run.deaths + died,
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
            self.lease.cause = describe_cause(later)
            await self._fail(run, later.reason)
        else:
            why = describe_cause(later)
            keys = {"waits_for": later.reason.value, "why": why, "wait": later.after}
            logger.warning("Run %s: waiting: %s: %s", run.id, later, why, extra=keys)
            await self.lease.release(_to_waiting(run, later, since=since))

    async def _fail(self, run: Run, failure: Failure) -> None:
        """Decide the failure, tell the maintainer; if that must wait, another attempt tells."""
        logger.warning("Run %s failed: %s", run.id, failure.value)
        since = run.waiting_since if run.failure else None
        decided = replace(run, failure=failure, waiting_since=since)
        await self._report_end(decided, self._handler.fail, RunStatus.FAILED)

    async def _stop(self, run: Run, stop: Stop) -> None:
        """Decide that the run is stopped, and report it like a failure."""
        logger.info("Run %s: stopping: %s", run.id, stop.why.value)
        since = run.waiting_since if run.stop else None
        decided = replace(run, stop=stop, waiting_since=since)
        await self._report_end(decided, self._handler.stop, RunStatus.STOPPED)

    async def _report_end(self, decided: Run, end: HandleRun, status: RunStatus) -> None:
        """Save and report a decided end; `status` is what it is if nobody can be told."""
        since = decided.waiting_since or now()
        decided = replace(decided, status=RunStatus.RUNNING, waiting_since=since, not_before=None)
        await self.lease.save(decided)
        outcome = None
        try:
            outcome = await self._try(end)
        except TryLater as later:
            if now() - since < self._patience:
                await self.lease.release(_to_waiting(decided, later, since=since))
                return
            logger.error("Run %s: could not report to the maintainer: %s", decided.id, later)  # noqa: TRY400 - the cause is in `later`
        except UnreadableRecord as error:
            logger.error("Run %s: could not report to the maintainer: %s", decided.id, error)  # noqa: TRY400 - the sentence says all
        ended = outcome or self.lease.run
        await self._finish(ended if ended.status.final else replace(ended, status=status))

    async def _find_stop(self) -> Stop | None:
        """Who wants the run to stop; a hint that turns out to be wrong is forgotten.

        Raises:
            TryLater: GitHub does not answer.
        """
        run = self.lease.run
        if run.end_reported:  # we take the label off ourselves then
            return None
        stop = await self._runs.get_stop(run.id)
        if stop is None or stop.why is StopReason.COMMAND:
            return stop
        if await self._handler.is_still_valid(run, stop):
            return stop
        await self._runs.drop_stop(run.id, stop)
        return None

    async def _wait_for_stop(self) -> Stop:
        while (stop := await self._find_stop()) is None:  # noqa: ASYNC110 - any process may ask
            await asyncio.sleep(self._poll_seconds)
        return stop

    async def _try(self, act: HandleRun) -> Run | None:
        """What `act` makes of the run as last saved; None when it failed through a bug.

        Raises:
            TryLater, LeaseLost: as `act`.
            UnreadableRecord: it needs what another version of Capuchin saved.
        """
        run = self.lease.run
        try:
            return await act(run, self.lease)
        except (TryLater, LeaseLost, UnreadableRecord):
            raise
        except Exception as error:  # the outermost edge of a run
            self.lease.cause = describe_cause(error)
            logger.exception("Run %s: a bug", run.id)
            return None

    async def _finish(self, run: Run) -> None:
        await self.lease.finish(replace(run, finished_at=run.finished_at or now(), not_before=None))
        report_end(self.lease.run, self.lease.cause)

    async def _hand_back(self, run: Run) -> None:
        """Hand the run back; the start does not count, as the worker stops for its own reasons."""
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
    # An internal error may repeat forever: those starts are counted.
    return waiting if later.reason is Failure.INTERNAL else _forgive_start(waiting)


def _forgive_start(run: Run) -> Run:
    return replace(run, fruitless_starts=max(0, run.fruitless_starts - 1))
