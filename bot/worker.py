"""A worker: takes up runs that nobody has, as many at a time as it may, until told to stop."""

from __future__ import annotations

import asyncio
import logging
import os
import signal
import socket
from collections.abc import Sequence
from contextlib import suppress
from typing import Any, Final
from uuid import uuid4

from structlog.contextvars import bound_contextvars

from bot.queue.attempt import STOP_POLL_SECONDS, RunAttempt
from bot.queue.consumer import ExecuteRequest, RequestConsumer, RunQueue
from bot.queue.handler import RunHandlers
from bot.queue.nudges import NudgeReceiver, Nudges
from bot.queue.sweep import Sweep, SweepActions
from bot.settings import Settings
from bot.storage.client import UNREACHABLE, Outage
from bot.storage.lease import Lease
from bot.storage.storage import Storage

logger = logging.getLogger(__name__)

REDIS_SECONDS: Final = 5.0  # for one command; at most a third of the lease
SETTLE_POLL_SECONDS: Final = 0.02


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
        """`execute` carries out what comments command; None: this worker leaves them in Redis."""
        self.name = f"{socket.gethostname()}-{os.getpid()}-{uuid4().hex[:6]}"
        self._settings = settings
        self._handlers = handlers
        self._execute = execute
        self._sweep_actions = sweep_actions
        self._stopping = asyncio.Event()
        self._attempts: dict[asyncio.Task[None], RunAttempt] = {}
        self._outage = Outage()
        self._receiver: NudgeReceiver | None = None

    def stop(self) -> None:
        """Take no more runs, let steps under way end, hand the runs over; then `run` returns."""
        self._stopping.set()

    async def run(self) -> None:
        """Work until `stop`. Cancelled, it stops as well, and takes as long for it."""
        timeout = min(REDIS_SECONDS, self._settings.lease_seconds / 3)
        async with self._open_storage(timeout) as storage:
            nudges = Nudges(storage)
            sweep = self.build_sweep(storage, nudges)
            loops = [
                asyncio.create_task(self._stopping.wait()),
                asyncio.create_task(self._receive_nudges(storage)),
                asyncio.create_task(sweep.nudge_idle_runs()),
                asyncio.create_task(sweep.recover_missed()),
                asyncio.create_task(sweep.remove_leftovers()),
                asyncio.create_task(sweep.announce_positions()),
                asyncio.create_task(sweep.follow_up_pulls()),
                asyncio.create_task(self._consume_requests(storage, nudges)),
            ]
            try:
                done, _ = await asyncio.wait(loops, return_when=asyncio.FIRST_COMPLETED)
                for ended in done:
                    ended.result()
            finally:
                self._stopping.set()
                await _cancel_all(loops)
                await self._hand_over(nudges)

    async def settle(self, seconds: float = 60) -> None:
        """Work until no run is active and no command is left, then stop.

        Raises:
            TimeoutError: some still were after `seconds`.
        """
        running = asyncio.create_task(self.run())
        try:
            async with asyncio.timeout(seconds):
                await self._wait_until_settled(running)
        finally:
            self.stop()
            await running

    def build_attempt(self, lease: Lease, *, poll_seconds: float = STOP_POLL_SECONDS) -> RunAttempt:
        """This worker's attempt at the run whose lease it has just taken."""
        return RunAttempt(
            lease,
            self._handlers[lease.run.mode],
            patience_seconds=self._settings.patience_seconds,
            poll_seconds=poll_seconds,
        )

    def build_sweep(self, storage: Storage, nudges: Nudges) -> Sweep:
        """The loops that find lost work."""
        return Sweep(storage, nudges, self._settings, self._sweep_actions, self._outage)

    def build_consumer(self, run_queue: RunQueue) -> RequestConsumer | None:
        """What carries out commands; None if this worker carries out none."""
        if self._execute is None:
            return None
        return RequestConsumer(run_queue, self._execute, self._settings, self._outage)

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

    async def _wait_until_settled(self, running: asyncio.Task[None]) -> None:
        async with self._open_storage(REDIS_SECONDS) as storage:
            while not running.done() and (  # noqa: ASYNC110 - a run may end elsewhere
                await storage.runs.list_active() or self._attempts or await storage.requests.count()
            ):
                await asyncio.sleep(SETTLE_POLL_SECONDS)

    def _open_storage(self, timeout: float) -> Storage:
        return Storage.open(self._settings.redis_url, self._settings.redis_prefix, timeout=timeout)

    async def _receive_nudges(self, storage: Storage) -> None:
        while True:
            seconds = self._settings.lease_seconds
            self._receiver = NudgeReceiver(
                storage, lambda run_id: self._begin_run(storage, run_id), seconds=seconds
            )
            self._update_receiver()
            try:
                await storage.ping()
                self._outage.end()
                await self._receiver.run()
            except UNREACHABLE as error:
                await self._outage.wait(error)

    async def _consume_requests(self, storage: Storage, nudges: Nudges) -> None:
        consumer = self.build_consumer(RunQueue(storage, nudges))
        await (asyncio.Event().wait() if consumer is None else consumer.run())

    async def _begin_run(self, storage: Storage, run_id: str) -> None:
        if self._is_full:
            return
        with suppress(*UNREACHABLE):  # the sweep nudges again
            lease = await Lease.acquire(
                storage, run_id, worker=self.name, seconds=self._settings.lease_seconds
            )
            if lease is not None:
                self._start_attempt(self.build_attempt(lease))

    def _start_attempt(self, attempt: RunAttempt) -> None:
        run = attempt.lease.run
        with bound_contextvars(
            run=run.id, repository=run.repo.full_name, issue=run.issue, delivery=run.delivery
        ):
            task = asyncio.create_task(attempt.run())
        self._attempts[task] = attempt
        task.add_done_callback(self._on_attempt_end)
        self._update_receiver()

    def _on_attempt_end(self, task: asyncio.Task[None]) -> None:
        del self._attempts[task]
        if not task.cancelled() and (error := task.exception()):
            logger.error("An attempt broke off", exc_info=error)
        self._update_receiver()

    def _update_receiver(self) -> None:
        if self._receiver:
            self._receiver.set_listening(not self._is_full)

    @property
    def _is_full(self) -> bool:
        return self._stopping.is_set() or len(self._attempts) >= self._settings.worker_runs

    async def _hand_over(self, nudges: Nudges) -> None:
        """Let what is under way end within the time for it; give the rest to other workers."""
        attempts = dict(self._attempts)
        if not attempts:
            return
        logger.info("Stopping: %d runs to end or hand over", len(attempts))
        quiet = [asyncio.create_task(_wait_until_idle(*each)) for each in attempts.items()]
        await asyncio.wait(quiet, timeout=self._settings.stop_seconds)
        await _cancel_all([*quiet, *attempts])
        for attempt in attempts.values():
            with suppress(*UNREACHABLE):
                if not attempt.lease.run.status.final:
                    await nudges.send_for(attempt.lease.run)


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
