"""A whole run on real Sentinels, and on a Redis with TLS and users."""

import asyncio
from collections.abc import Callable
from pathlib import Path
from urllib.parse import quote

import pytest
from pydantic import BaseModel
from redis import Redis

from bot.data.run import Login, RepoRef, Run, RunId, RunStatus
from bot.queue.jobs import RunQueue
from bot.queue.worker import Worker
from bot.settings import Settings, Timings
from bot.storage.client import UNREACHABLE
from bot.storage.lease import Lease
from bot.storage.storage import Storage
from sandbox.frozen import replace
from tests.support.handlers import handlers_of
from tests.support.redis_topologies import PASSWORD, run_sentinels, run_with_tls

REPO = RepoRef(id=1, owner="acme", name="shop", installation=1)


class Step(BaseModel):
    text: str


class Bench:
    """A worker whose run saves a step, waits for the test, and ends with the step it reads back."""

    def __init__(self, url: str) -> None:
        self.settings = Settings(
            redis_url=url, timings=Timings(lease_seconds=120, sweep_seconds=0.5)
        )
        self.saved, self.go_on = asyncio.Event(), asyncio.Event()
        self.worker = Worker(self.settings, handlers_of(self._work, self._give_up))

    async def _work(self, run: Run, lease: Lease) -> Run:
        await lease.checkpoints.save("step", Step(text="no edit"))
        self.saved.set()
        await self.go_on.wait()
        step = await lease.checkpoints.load("step", Step)
        assert step is not None
        return replace(run, status=RunStatus.NO_FIX, no_fix=step.text)

    async def _give_up(self, run: Run, lease: Lease) -> Run:
        del lease
        return replace(run, status=RunStatus.FAILED)

    def open_storage(self) -> Storage:
        return Storage.open(self.settings.redis_url, self.settings.redis_prefix, timeout=60)

    async def begin(self) -> RunId:
        """A run that waits for the test."""
        async with self.open_storage() as storage:
            asked = await storage.runs.create(REPO, 7, asked_by=Login("ann"), delivery="guid")
            await RunQueue(storage).send(asked.run_id, 0)
        await asyncio.wait_for(self.saved.wait(), 120)
        return asked.run_id

    async def finish(self, run_id: RunId) -> Run:
        self.go_on.set()
        async with self.open_storage() as storage, asyncio.timeout(120):
            while True:
                try:
                    run = await storage.runs.get(run_id)
                except UNREACHABLE:
                    run = None
                if run is not None and run.status.final:
                    return run
                await asyncio.sleep(0.05)

    async def run(self, change: Callable[[], None] = lambda: None) -> Run:
        """A whole run; `change` happens to Redis while it works."""
        working = asyncio.create_task(self.worker.run())
        try:
            run_id = await self.begin()
            await asyncio.to_thread(change)
            return await self.finish(run_id)
        finally:
            self.worker.stop()
            await working


async def test_a_run_outlives_the_primary_that_a_sentinel_replaces(tmp_path: Path) -> None:
    with run_sentinels(tmp_path) as (url, primary, port):

        def kill() -> None:
            with Redis(port=port) as client:
                # `WAIT` is about the writes of its own connection, and all that came before them.
                client.set("written last", 1)
                assert client.wait(1, 120_000) == 1
            primary.kill()

        run = await Bench(url).run(kill)
    assert (run.status, run.no_fix, run.starts) == (RunStatus.NO_FIX, "no edit", 1)


async def test_a_user_who_may_only_touch_our_keys_over_tls_is_enough(tmp_path: Path) -> None:
    with run_with_tls(tmp_path / "tls") as (place, certificate):
        login = f"capuchin:{quote(PASSWORD, safe='')}"
        url = f"rediss://{login}@{place}/0?ssl_ca_certs={certificate}"
        run = await Bench(url).run()
        assert run.status is RunStatus.NO_FIX
        async with Storage.open(f"rediss://{login}@{place}/0", "capuchin:", timeout=3) as other:
            with pytest.raises(UNREACHABLE):  # the certificate is nobody's whom we trust
                await other.ping()
