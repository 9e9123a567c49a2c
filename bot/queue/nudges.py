"""Nudges to the workers, sent when a run is created. The only importer of arq.

A nudge is a hint and may be lost: leases, heartbeats and the sweep decide what is worked on. arq's
jobs are therefore short: a job only asks the worker to begin a run, and never lasts as long as it.
So arq's retries, its timeouts and the time that it takes to notice a dead worker are of no account.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable
from typing import Any, Final

from arq import ArqRedis, Worker, func

from bot.storage.storage import Storage
from bot.types import Run

BeginRun = Callable[[str], Awaitable[None]]

POLL_SECONDS: Final = 0.05  # arq's own 0.5 makes the median pick-up 170 ms instead of 40
BEGIN_SECONDS: Final = 30  # for one command to Redis


def _open_arq(storage: Storage) -> ArqRedis:
    return ArqRedis(
        pool_or_conn=storage.connection_pool,
        job_serializer=_dump,  # arq's default is pickle: a writer to Redis would run code here
        job_deserializer=json.loads,
        default_queue_name=storage.nudge_queue,
    )


def _dump(job: dict[str, Any]) -> bytes:
    return json.dumps(job, default=str).encode()


class Nudges:
    """The sending side. Raises redis-py's errors."""

    def __init__(self, storage: Storage) -> None:
        self._arq = _open_arq(storage)
        self._prefix = storage.prefix

    async def send(self, run_id: str, starts: int) -> None:
        """Ask any worker to begin a run that has been begun `starts` times.

        At most one nudge for each start is queued, however often this is called.
        """
        await self._arq.enqueue_job("begin", run_id, _job_id=f"{self._prefix}{run_id}#{starts}")

    async def send_for(self, run: Run) -> None:
        await self.send(run.id, run.starts)


class NudgeReceiver:
    """The receiving side: hands one nudge after the other to `begin` while the worker is free."""

    def __init__(self, storage: Storage, begin: BeginRun, *, seconds: float) -> None:
        """`seconds` after which a nudge is free again whose receiver died with it in its hands."""
        self._begin = begin
        self._worker = Worker(
            [func(self._receive, name="begin", timeout=BEGIN_SECONDS, max_tries=1, keep_result=0)],
            queue_name=storage.nudge_queue,
            redis_pool=_open_arq(storage),
            handle_signals=False,
            max_jobs=1,  # so that `set_listening` is looked at between any two
            poll_delay=POLL_SECONDS,
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

    async def _receive(self, ctx: dict[Any, Any], run_id: str) -> None:
        del ctx
        await self._begin(run_id)
