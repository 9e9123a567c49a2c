"""Tells workers of a new run. The only importer of arq.

A nudge is a hint and may be lost: leases, heartbeats and the sweep decide what is worked on. A job
only asks the worker to begin a run and ends at once, so arq's retries and timeouts do not matter.
"""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Awaitable, Callable
from typing import Any, Final

from arq import ArqRedis, Worker, func
from arq.constants import expires_extra_ms, job_key_prefix
from arq.jobs import serialize_job

from bot.data.request import RunRequest, StartOutcome, StartResult
from bot.data.run import Lane, Run, RunId, StopReason
from bot.storage.client import CancellableRedis
from bot.storage.runs import Nudge, Runs
from bot.storage.storage import Storage

BeginRun = Callable[[RunId], Awaitable[None]]

POLL_SECONDS: Final = {Lane.ISSUES: 0.05, Lane.PULLS: 0.5}
"""For runs of issues, arq's own 0.5 makes the median pick-up 170 ms instead of 40."""


def _dump(job: dict[str, Any]) -> bytes:
    return json.dumps(job, default=str).encode()


class Nudges:
    """The sending side, in arq's form. Raises redis-py's errors.

    arq's own sender takes four round trips, and cannot take part in the step that creates a run.
    """

    def __init__(self, storage: Storage) -> None:
        self._storage = storage

    async def send(self, run_id: RunId, starts: int, lane: Lane = Lane.ISSUES) -> None:
        """Ask any worker to begin a run that has been begun `starts` times.

        At most one nudge for each start is queued, however often this is called.
        """
        await self._storage.send_nudge(self._build(run_id, starts, lane))

    async def send_for(self, run: Run) -> None:
        await self.send(run.id, run.starts, run.mode.lane)

    def build_first(self, run_id: RunId) -> Nudge:
        """What asks to begin a new run of an issue."""
        return self._build(run_id, 0, Lane.ISSUES)

    def _build(self, run_id: RunId, starts: int, lane: Lane) -> Nudge:
        job, at = f"{self._storage.prefix}{run_id}#{starts}", time.time_ns() // 1_000_000
        message = serialize_job("begin", (run_id,), {}, None, at, serializer=_dump)
        keys = (job_key_prefix + job, self._storage.nudge_queue(lane))
        return Nudge(keys, (job, message, at, expires_extra_ms))


class _NudgeRedis(CancellableRedis, ArqRedis):
    """arq's client; its worker watches keys, and is cancelled at any moment."""


class NudgeReceiver:
    """The receiving side of a lane: hands one nudge after the other to `begin` while it is free."""

    def __init__(
        self, storage: Storage, begin: BeginRun, *, seconds: float, lane: Lane = Lane.ISSUES
    ) -> None:
        """`seconds` until a nudge is redelivered if its receiver dies."""
        self._begin = begin
        self._worker = Worker(
            [func(self._receive, name="begin", timeout=30, max_tries=1, keep_result=0)],
            queue_name=storage.nudge_queue(lane),
            redis_pool=_NudgeRedis(
                pool_or_conn=storage.connection_pool,
                # arq's default is pickle: a writer to Redis would run code here.
                job_serializer=_dump,
                job_deserializer=json.loads,
                default_queue_name=storage.nudge_queue(lane),
            ),
            handle_signals=False,
            max_jobs=1,  # so that `set_listening` is looked at between any two
            poll_delay=POLL_SECONDS[lane],
            keep_result=0,
            job_serializer=_dump,
            job_deserializer=json.loads,
        )
        self._worker.in_progress_timeout_s = seconds

    def set_listening(self, free: bool) -> None:
        """Whether nudges are taken; when not, they stay in the queue for other workers."""
        self._worker.allow_pick_jobs = free

    async def run(self) -> None:
        """Listen until cancelled. Raises redis-py's errors, and is then of no further use."""
        try:
            await self._worker.main()
        finally:
            left = [*self._worker.tasks.values(), *self._worker.job_tasks.values()]
            for task in left:
                task.cancel()
            if left:
                await asyncio.wait(left)
                for task in left:
                    if not task.cancelled():
                        task.exception()

    async def _receive(self, ctx: dict[Any, Any], run_id: RunId) -> None:
        del ctx
        await self._begin(run_id)


async def request_run(request: RunRequest, storage: Storage, nudges: Nudges) -> StartResult:
    """Begin the run and nudge a worker, or join the one that the issue has.

    Where that one does not answer the request (it plans only, or is being stopped), the request
    is queued until it ends.
    Raises redis-py's errors; asked again it does what is left to do.
    """
    runs = storage.runs
    latest = await runs.get_latest(request.repo, request.issue)
    if latest is None or latest.status.final or await _can_join(latest, request, runs):
        return await runs.start(request, latest, nudges.build_first)
    if await runs.is_handled(request):
        return StartResult(StartOutcome.REPEATED, latest.id)
    await storage.requests.put(request)
    await runs.mark_handled(request, latest.id)
    return StartResult(StartOutcome.RUNNING, latest.id)


async def _can_join(under_way: Run, request: RunRequest, runs: Runs) -> bool:
    """Whether the run does what the request asks for, and was not stopped before the request."""
    if under_way.mode is not request.mode:
        return False
    stop = under_way.stop or await runs.get_stop(under_way.id)
    if stop is None or stop.why is not StopReason.COMMAND or stop.at is None or request.at is None:
        return True
    return request.at <= stop.at
