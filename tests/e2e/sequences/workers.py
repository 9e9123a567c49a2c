"""The bot's workers, moved by hand: each takes up a run, ends and dies when told to."""

import asyncio
from typing import Final, NamedTuple
from uuid import uuid4

from bot.data.run import Run, RunId, now
from bot.queue.worker import Worker
from bot.storage.lease import Lease
from bot.storage.storage import Storage
from tests.e2e.deaths import Deaths
from tests.e2e.runners import GatedRunner

LONG: Final = 3600.0
"""Seconds of a lease: it ends when the sequence says so."""
ASK_SECONDS: Final = 0.03
"""How often a run is asked whether it is to stop; the sequence waits for the answer."""


class AtWork(NamedTuple):
    """A worker that has a run."""

    lease: Lease
    task: asyncio.Task[None]

    def die(self) -> None:
        """As its machine does: it hands nothing back."""
        self.lease.lost = True
        self.task.cancel()


class Workers:
    """As many as there are runs taken up, of which `at_work` has those not yet over."""

    def __init__(
        self, worker: Worker, storage: Storage, runner: GatedRunner, deaths: Deaths
    ) -> None:
        self.at_work: dict[str, AtWork] = {}
        self.faults: list[str] = []
        """What was seen on the way and must not be."""
        self._storage = storage
        self._runs = storage.runs
        self._runner = runner
        self._deaths = deaths
        self._worker = worker

    async def idle(self) -> list[Run]:
        """The runs that nobody has taken up, by when they were asked for."""
        idle = (await self._storage.active_runs.survey()).idle
        found = {run.id: run for run in idle}
        for run_id in await self._runs.list_stopping():  # a stop waits for no time
            run = await self._runs.get_readable(run_id)
            if run and run.stop is None and run.not_before and run.not_before > now():
                found[run.id] = run
        return sorted(found.values(), key=lambda run: run.created_at)

    async def begin(self, run: Run) -> None:
        """A worker takes the run up; it works until the pipeline is to answer."""
        at_work = await self._taken_up(run)
        if at_work is not None:
            await self._until_quiet(run.id)

    async def begin_and_die(self, run: Run, effect: int) -> None:
        """A worker that dies as soon as GitHub has answered its `effect`th effect."""
        at_work = await self._taken_up(run)
        if at_work is None:
            return
        with self._deaths.after(effect, at_work.die):
            await self._until_quiet(run.id)
            if run.id in self.at_work:
                await self.finish(run.id)
        await self._lease_runs_out(run.id)

    async def finish(self, run_id: str) -> None:
        """The pipeline answers; the worker ends."""
        if run_id in self._runner.gates:  # else it is on its way out already
            self._runner.gates[run_id].set()
        await self._ended(run_id)

    async def kill(self, run_id: str) -> None:
        """The worker is gone, as its machine is; its lease runs out."""
        self.at_work[run_id].die()
        await self._ended(run_id)
        await self._lease_runs_out(run_id)

    async def hand_over(self, run_id: str) -> None:
        """The worker is told to end, as by a deploy."""
        self.at_work[run_id].task.cancel()
        await self._ended(run_id)

    async def stopped(self) -> None:
        """What was asked to stop has heard of it."""
        for run_id, at_work in list(self.at_work.items()):
            if at_work.lease.run.end_reported:  # too late for it
                continue
            while not at_work.task.done() and await self._runs.get_stop(RunId(run_id)):
                await asyncio.sleep(0.005)
            if at_work.task.done():
                await self._ended(run_id)

    async def _taken_up(self, run: Run) -> AtWork | None:
        lease = await Lease.acquire(self._storage, run.id, worker=uuid4().hex, seconds=LONG)
        if lease is None:
            return None
        others = [each.lease.run for each in self.at_work.values()]
        if any((o.repo, o.issue) == (run.repo, run.issue) for o in others):
            self.faults.append(f"two runs of #{run.issue} at once")
        attempt = self._worker.build_attempt(lease, poll_seconds=ASK_SECONDS)
        self._runner.arrived.clear()
        self.at_work[run.id] = AtWork(lease, asyncio.create_task(attempt.run()))
        return self.at_work[run.id]

    async def _until_quiet(self, run_id: str) -> None:
        """The worker waits for the pipeline, or has ended."""
        task = self.at_work[run_id].task
        came = asyncio.create_task(self._runner.arrived.wait())
        await asyncio.wait([task, came], return_when=asyncio.FIRST_COMPLETED)
        came.cancel()
        if task.done():
            await self._ended(run_id)

    async def _ended(self, run_id: str) -> None:
        task = self.at_work.pop(run_id).task
        await asyncio.wait([task])
        if not task.cancelled() and (error := task.exception()) is not None:
            raise error

    async def _lease_runs_out(self, run_id: str) -> None:
        await self._storage.redis.delete(self._storage.keys.run(RunId(run_id), "lease"))
