"""A worker: takes up runs, with a limit per lane."""

import asyncio
import logging
import os
import signal
import socket
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from functools import partial
from typing import Any, Final
from uuid import uuid4

from structlog.contextvars import bound_contextvars

from bot.data.run import Lane, RunId, now
from bot.queue.attempt import STOP_POLL_SECONDS, RunAttempt, RunHandlers
from bot.queue.jobs import ExecuteRequest, JobWorker, RunQueue
from bot.queue.position import order_fairly, owner_of
from bot.queue.sweep import IdleStops, Sweep, SweepActions
from bot.settings import Settings
from bot.storage.client import UNREACHABLE, Outage
from bot.storage.lease import Lease
from bot.storage.storage import Storage
from bot.storage.workers import HEARTBEAT_SECONDS, WorkerState
from bot.telemetry.log import log_calls
from bot.telemetry.measurements import measure
from sandbox.observation import add_observer

logger = logging.getLogger(__name__)


Begin = Callable[[RunId], Awaitable[Lease | None]]
"""Takes the lease of a run; None if somebody else has it."""


class WorkerSlots:
    """Takes up runs in fair order while there is room."""

    def __init__(
        self,
        issue_slots: int,
        build_attempt: Callable[[Lease], RunAttempt],
        on_change: Callable[[], None],
    ) -> None:
        """`on_change` is called when the number of runs changes."""
        self.capacity: Mapping[Lane, int] = {Lane.ISSUES: issue_slots, Lane.PULLS: 1}
        self.attempts: dict[asyncio.Task[None], RunAttempt] = {}
        self._build_attempt = build_attempt
        self._on_change = on_change
        self._locks = {lane: asyncio.Lock() for lane in Lane}
        self._closed = False

    def close(self) -> None:
        """Take up no more runs."""
        self._closed = True

    def count(self, lane: Lane) -> int:
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
            run=run.id,
            repository=run.repo.full_name,
            issue=run.issue,
            delivery=run.delivery,
            by=run.asked_by,
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


REDIS_SECONDS: Final = 5.0  # for one command; at most a third of the lease


class Worker:
    """Works on every active run that it gets the lease of.

    While Redis does not answer, the worker waits and writes one line to the log.
    """

    def __init__(
        self,
        settings: Settings,
        handlers: RunHandlers,
        *,
        execute: ExecuteRequest | None = None,
        sweep_actions: SweepActions = SweepActions(),  # noqa: B008 - immutable
    ) -> None:
        """`execute` carries out what comments command; None: nobody commands anything."""
        self.name = f"{socket.gethostname()}-{os.getpid()}-{uuid4().hex[:6]}"
        self._settings = settings
        self._handlers = handlers
        self._execute = execute
        self._sweep_actions = sweep_actions
        self._stopping = asyncio.Event()
        self._slots_changed = asyncio.Event()
        self._slots = WorkerSlots(settings.worker_runs, self.build_attempt, self._slots_changed.set)
        self._outage = Outage()

    def stop(self) -> None:
        """Take no more runs, let steps under way end, hand the runs over; then `run` returns."""
        self._slots.close()
        self._stopping.set()

    async def run(self) -> None:
        """Work until `stop`. Cancelled, it stops as well, and takes as long for it."""
        add_observer("metrics", measure)
        add_observer("log", log_calls)
        logger.info(
            "Worker %s starts, for %d runs at a time", self.name, self._settings.worker_runs
        )
        timeout = min(REDIS_SECONDS, self._settings.timings.lease_seconds / 3)
        async with Storage.open(
            self._settings.redis_url, self._settings.redis_prefix, timeout=timeout
        ) as storage:
            queue = RunQueue(storage)
            repeat = self._outage.repeat
            stops = self._build_idle_stops(storage)
            sweep_seconds = self._settings.timings.sweep_seconds
            loops = [
                asyncio.create_task(loop)
                for loop in (
                    self._stopping.wait(),
                    self._take_jobs(queue),
                    self._refill(storage),
                    repeat(HEARTBEAT_SECONDS, partial(self._send_heartbeat, storage)),
                    repeat(1, stops.stop_all),
                    repeat(sweep_seconds, partial(self._fill_all, storage)),
                    *self.build_sweep(queue).list_loops(),
                )
            ]
            try:
                done, _ = await asyncio.wait(loops, return_when=asyncio.FIRST_COMPLETED)
                for ended in done:
                    ended.result()
            finally:
                self.stop()
                await _cancel_all(loops)
                with suppress(*UNREACHABLE):
                    await storage.workers.remove(self.name)
                await self._hand_over(queue)

    def build_attempt(self, lease: Lease, *, poll_seconds: float = STOP_POLL_SECONDS) -> RunAttempt:
        """This worker's attempt at the run whose lease it has just taken."""
        return RunAttempt(
            lease,
            self._handlers[lease.run.mode],
            patience_seconds=self._settings.timings.patience_seconds,
            poll_seconds=poll_seconds,
        )

    def build_sweep(self, queue: RunQueue) -> Sweep:
        timings, label = self._settings.timings, self._settings.label
        return Sweep(queue, self._sweep_actions, self._outage, timings=timings, label=label)

    def build_job_worker(self, queue: RunQueue) -> JobWorker:
        async def begin(lane: Lane) -> bool:
            is_free = not self._slots.is_full(lane)
            await self._fill(queue.storage, lane)
            return is_free

        return JobWorker(queue, begin, self._execute, self._settings.timings.patience_seconds)

    async def run_until_signalled(self) -> None:
        """`run`, and `stop` on SIGTERM or SIGINT. For a process of its own."""
        loop = asyncio.get_running_loop()
        signals = (signal.SIGTERM, signal.SIGINT)
        for each in signals:
            loop.add_signal_handler(each, self.stop)
        try:
            await self.run()
        finally:
            for each in signals:
                loop.remove_signal_handler(each)

    async def _take_jobs(self, queue: RunQueue) -> None:
        while True:
            try:
                await queue.storage.ping()
                self._outage.end()
                await self.build_job_worker(queue).run()
            except UNREACHABLE as error:
                await self._outage.wait(error)

    async def _fill(self, storage: Storage, lane: Lane) -> None:
        await self._slots.fill(lane, storage, partial(self._acquire, storage))

    async def _acquire(self, storage: Storage, run_id: RunId) -> Lease | None:
        seconds = self._settings.timings.lease_seconds
        return await Lease.acquire(storage, run_id, worker=self.name, seconds=seconds)

    async def _refill(self, storage: Storage) -> None:
        """Take up the next run when one ends: the job for it may have been used up before."""
        while True:
            await self._slots_changed.wait()
            self._slots_changed.clear()
            for lane in Lane:
                await self._fill(storage, lane)

    async def _fill_all(self, storage: Storage) -> None:
        """Take up runs whose worker died or whose job was lost. A full worker reads none."""
        await storage.ping()
        self._outage.end()
        for lane in Lane:
            await self._fill(storage, lane)

    async def _send_heartbeat(self, storage: Storage) -> None:
        busy = {lane: self._slots.count(lane) for lane in Lane}
        state = WorkerState(name=self.name, slots=dict(self._slots.capacity), busy=busy)
        await storage.workers.save_heartbeat(state)

    def _build_idle_stops(self, storage: Storage) -> IdleStops:
        async def stop(run_id: RunId) -> bool:
            run = await storage.runs.get_readable(run_id)
            if run is None or (run.stop and run.not_before and run.not_before > now()):
                return False  # its report waits for GitHub
            lease = await self._acquire(storage, run_id)
            if lease is not None:
                await self.build_attempt(lease).stop_if_wanted()
            return lease is not None

        return IdleStops(storage.runs, stop)

    async def _hand_over(self, queue: RunQueue) -> None:
        """Let what is under way end within the time for it; give the rest to other workers."""
        attempts = dict(self._slots.attempts)
        if not attempts:
            return
        logger.info("Stopping: waiting for %d runs to end or be handed over", len(attempts))
        quiet = [asyncio.create_task(_wait_until_idle(*each)) for each in attempts.items()]
        await asyncio.wait(quiet, timeout=self._settings.timings.stop_seconds)
        await _cancel_all([*quiet, *attempts])
        for attempt in attempts.values():
            with suppress(*UNREACHABLE):
                if not attempt.lease.run.status.final:
                    await queue.send_for(attempt.lease.run)


async def _wait_until_idle(task: asyncio.Task[None], attempt: RunAttempt) -> None:
    drained = asyncio.create_task(attempt.lease.in_flight.wait_until_idle())
    try:
        await asyncio.wait([task, drained], return_when=asyncio.FIRST_COMPLETED)
    finally:
        await _cancel_all([drained])


async def _cancel_all(tasks: Sequence[asyncio.Task[Any]]) -> None:
    """Cancel and await; their ends are for their own callbacks."""
    for task in tasks:
        task.cancel()
    if tasks:
        await asyncio.wait(tasks)
