"""Whose turn it is: owners take turns, reviewers do not wait for issues, stops for nobody."""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from zlib import crc32

from bot.data.run import Lane, Login, Mode, RepoRef, Run, RunId, RunStatus, Stop, StopReason
from bot.queue.worker import Worker
from bot.settings import Settings
from bot.storage.lease import Lease
from bot.storage.storage import Storage
from sandbox.frozen import replace
from tests.support.handlers import handlers_of

SECONDS = 120


class GatedHandler:
    """Remembers in which order runs begin; each lasts until the gate of its lane is open."""

    def __init__(self) -> None:
        self.begun: list[Run] = []
        self.gates = {lane: asyncio.Event() for lane in Lane}

    async def work(self, run: Run, _lease: Lease) -> Run:
        self.begun.append(run)
        await self.gates[run.mode.lane].wait()
        return replace(run, status=RunStatus.NO_FIX)

    async def end(self, run: Run, _lease: Lease) -> Run:
        return replace(run, status=RunStatus.STOPPED)

    async def until_begun(self, count: int) -> None:
        async with asyncio.timeout(SECONDS):
            while len(self.begun) < count:
                await asyncio.sleep(0.01)


@asynccontextmanager
async def working(settings: Settings, handler: GatedHandler) -> AsyncGenerator[Worker]:
    worker = Worker(replace(settings, worker_runs=1), handlers_of(handler.work, handler.end))
    task = asyncio.create_task(worker.run())
    try:
        yield worker
    finally:
        for gate in handler.gates.values():
            gate.set()
        worker.stop()
        await task


async def ask(storage: Storage, owner: str, issue: int, mode: Mode = Mode.FIX) -> RunId:
    repo = RepoRef(id=crc32(owner.encode()), owner=owner, name="shop", installation=1)
    delivery = f"{owner}-{issue}"
    asked = await storage.runs.create(
        repo, issue, asked_by=Login("ann"), delivery=delivery, mode=mode
    )
    return asked.run_id


async def test_owners_take_turns(settings: Settings, storage: Storage) -> None:
    handler = GatedHandler()
    for issue in range(1, 5):
        await ask(storage, "busy", issue)
    await ask(storage, "patient", 1)
    async with working(settings, handler):
        handler.gates[Lane.ISSUES].set()
        await handler.until_begun(5)
    assert [run.repo.owner for run in handler.begun] == ["busy", "patient", "busy", "busy", "busy"]
    assert [run.issue for run in handler.begun if run.repo.owner == "busy"] == [1, 2, 3, 4]


async def test_a_review_is_followed_while_every_slot_works_on_an_issue(
    settings: Settings, storage: Storage
) -> None:
    handler = GatedHandler()
    async with working(settings, handler):
        await ask(storage, "acme", 1)
        await handler.until_begun(1)
        await ask(storage, "acme", 2)
        await ask(storage, "acme", 3, Mode.FOLLOW_UP)
        await handler.until_begun(2)
        assert [run.mode for run in handler.begun] == [Mode.FIX, Mode.FOLLOW_UP]


async def test_a_queued_run_stops_without_a_slot(settings: Settings, storage: Storage) -> None:
    handler = GatedHandler()
    async with working(settings, handler):
        await ask(storage, "acme", 1)
        await handler.until_begun(1)
        queued = await ask(storage, "acme", 2)
        stop = Stop(by=Login("ann"), why=StopReason.COMMAND)
        await storage.runs.request_stop(handler.begun[0].repo, 2, stop)
        async with asyncio.timeout(SECONDS):
            while (run := await storage.runs.get(queued)) is None or not run.status.final:
                await asyncio.sleep(0.02)
        assert (run.status, run.starts) == (RunStatus.STOPPED, 0)
        assert await storage.runs.list_stopping() == []
    assert len(handler.begun) == 1


async def test_workers_say_that_they_live_until_they_stop(
    settings: Settings, storage: Storage
) -> None:
    handler = GatedHandler()
    async with working(settings, handler) as worker:
        await ask(storage, "acme", 1)
        await handler.until_begun(1)
        async with asyncio.timeout(SECONDS):
            while not (living := await storage.workers.list_living()):
                await asyncio.sleep(0.02)
        assert [(state.name, state.slots) for state in living] == [
            (worker.name, {Lane.ISSUES: 1, Lane.PULLS: 1})
        ]
    assert await storage.workers.list_living() == []
    assert await storage.workers.get_last_heartbeat() is not None
