"""Workers as processes that are killed, stopped, and left without Redis."""

import asyncio
import json
import os
import signal
import sys
from asyncio.subprocess import PIPE, STDOUT, Process
from collections.abc import AsyncGenerator, Awaitable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import cast

import pytest
from redis.asyncio import Redis

from bot.data.failure import Failure
from bot.data.run import Login, RepoRef, Run, RunId, RunStatus
from bot.queue.jobs import RunQueue
from bot.settings import Settings
from bot.storage.storage import Storage
from capuchin_demo.environment import find_free_port
from pipeline.store import FORMAT
from tests.support.redis import RedisServer

ROOT = Path(__file__).parents[3]
REPO = RepoRef(id=1, owner="acme", name="shop", installation=1)


class Bench:
    """Workers, and the strings by which the test moves their work."""

    def __init__(self, url: str, prefix: str) -> None:
        self.redis = Redis.from_url(url)
        self.storage = Storage(self.redis, prefix)
        self.runs = self.storage.runs
        self._settings = Settings(redis_url=url, redis_prefix=prefix)
        self._prefix = prefix
        self._workers: list[Process] = []

    async def start_worker(
        self, *, lease_seconds: float = 60, stop_seconds: float = 120, number: int = FORMAT
    ) -> Process:
        """By default no stall of a busy machine takes a lease away, or cuts a step."""
        worker = await asyncio.create_subprocess_exec(
            sys.executable,
            "-m",
            "tests.e2e.worker.process",
            str(number),
            str(lease_seconds),
            str(stop_seconds),
            cwd=ROOT,
            stderr=PIPE,
            env={
                "PATH": os.defpath,
                "CAPUCHIN_REDIS_URL": self._settings.redis_url,
                "CAPUCHIN_REDIS_PREFIX": self._prefix,
            },
        )
        self._workers.append(worker)
        return worker

    async def ask(self) -> str:
        asked = await self.runs.create(REPO, 7, asked_by=Login("ann"), delivery="guid")
        await RunQueue(self.storage).send(asked.run_id, 0)
        return asked.run_id

    async def event(self) -> tuple[str, int]:
        """What the work said next, and which process said it."""
        found = cast(
            Awaitable[tuple[bytes, bytes] | None],
            self.redis.blpop([f"{self._prefix}events"], timeout=120),
        )
        answer = await found
        assert answer is not None, "no worker said anything"
        text, _, pid = answer[1].decode().rpartition(" ")
        return text, int(pid) if pid.isdecimal() else 0

    async def let_go(self, steps: int = 1) -> None:
        for _ in range(steps):
            await cast(Awaitable[int], self.redis.rpush(f"{self._prefix}gate", "go"))

    async def kill(self, worker: Process, run_id: str) -> None:
        """Kill the worker; what is left of its lease of the run goes by at once."""
        worker.kill()
        await worker.wait()
        await self.end_lease(run_id)

    async def end_lease(self, run_id: str) -> None:
        await self.redis.pexpire(self.storage.keys.run(RunId(run_id), "lease"), 1)

    async def ended(self, run_id: str) -> Run:
        async with asyncio.timeout(120):
            while True:
                run = await self.runs.get(RunId(run_id))
                if run is not None and run.status.final:
                    return run
                await asyncio.sleep(0.02)

    async def close(self) -> None:
        for worker in self._workers:
            if worker.returncode is None:
                worker.kill()
            await worker.communicate()
        await self.redis.aclose()


async def said(worker: Process, words: str) -> list[str]:
    """The lines of the worker's log up to the one with `words`."""
    assert worker.stderr
    lines: list[str] = []
    async with asyncio.timeout(120):
        while not lines or words not in lines[-1]:
            line = await worker.stderr.readline()
            assert line, "\n".join(lines)
            lines.append(line.decode())
    return lines


@asynccontextmanager
async def opened(url: str, prefix: str) -> AsyncGenerator[Bench]:
    bench = Bench(url, prefix)
    try:
        yield bench
    finally:
        await bench.close()


@pytest.fixture
async def bench(redis_server: RedisServer, redis_prefix: str) -> AsyncGenerator[Bench]:
    async with opened(redis_server.url, redis_prefix) as bench:
        yield bench


async def test_a_killed_worker_is_replaced_and_its_last_step_is_resumed(bench: Bench) -> None:
    workers = [await bench.start_worker(), await bench.start_worker()]
    run_id = await bench.ask()
    _, first = await bench.event()
    await bench.let_go()
    assert await bench.event() == ("1", first)
    (killed,) = (worker for worker in workers if worker.pid == first)
    await bench.kill(killed, run_id)
    step, second = await bench.event()
    assert step == "1"  # step 0 is not done again
    assert second in {worker.pid for worker in workers} - {first}
    await bench.let_go(2)
    run = await bench.ended(run_id)
    assert (run.status, run.starts) == (RunStatus.OPENED_PULL_REQUEST, 2)
    assert await bench.runs.list_active() == []


async def test_a_worker_told_to_stop_ends_its_step_and_hands_over_at_once(bench: Bench) -> None:
    leaving = await bench.start_worker()
    run_id = await bench.ask()
    assert await bench.event() == ("0", leaving.pid)
    leaving.terminate()
    await said(leaving, "Stopping: waiting for 1 runs")
    taking_over = await bench.start_worker()
    await bench.let_go()
    assert await bench.event() == ("1", taking_over.pid)  # step 0 was ended and saved
    assert await leaving.wait() == 0
    await bench.let_go(2)
    run = await bench.ended(run_id)
    assert (run.starts, run.fruitless_starts) == (2, 1)


async def test_a_run_that_another_release_began_begins_anew(bench: Bench) -> None:
    old = await bench.start_worker()
    run_id = await bench.ask()
    assert await bench.event() == ("0", old.pid)
    new = await bench.start_worker(number=FORMAT + 1)
    old.terminate()
    await said(old, "Stopping: waiting for 1 runs")
    await bench.let_go()
    await said(new, f"format {FORMAT}")
    assert await bench.event() == ("0", new.pid)
    assert await old.wait() == 0
    await bench.let_go(3)
    async with asyncio.timeout(120):
        while await bench.runs.list_active():
            await asyncio.sleep(0.02)
    ended = json.loads(await bench.redis.get(bench.storage.keys.run(RunId(run_id))) or b"")
    assert ended["format"] == FORMAT + 1
    assert ended["record"]["status"] == RunStatus.OPENED_PULL_REQUEST


async def test_a_run_goes_on_from_a_backup_that_the_documented_commands_restore(
    own_redis_server: RedisServer, redis_prefix: str, tmp_path: Path
) -> None:
    guide = (ROOT / "docs/operating.md").read_text().partition("## Backup")[2]
    back_up, restore = [part.partition("```")[0] for part in guide.split("```sh\n")[1:3]]
    env = {"PATH": os.defpath, "CAPUCHIN_REDIS_URL": own_redis_server.url, "DATA": str(tmp_path)}
    async with opened(own_redis_server.url, redis_prefix) as bench:
        await bench.start_worker()
        run_id = await bench.ask()
        assert (await bench.event())[0] == "0"
        await bench.let_go()
        assert (await bench.event())[0] == "1"
        await run_shell(back_up, tmp_path, env)
    own_redis_server.stop()
    folder = tmp_path / "restored"
    folder.mkdir()
    script = restore.replace("6390", str(find_free_port()))
    await run_shell(script, tmp_path, env | {"DATA": str(folder)})
    restored = RedisServer(folder, durable=True)
    restored.start()
    try:
        async with opened(restored.url, redis_prefix) as bench:
            await bench.end_lease(run_id)
            worker = await bench.start_worker()
            assert await bench.event() == ("1", worker.pid)
            await bench.let_go(2)
            run = await bench.ended(run_id)
    finally:
        restored.stop()
    assert (run.status, run.starts) == (RunStatus.OPENED_PULL_REQUEST, 2)


async def run_shell(script: str, folder: Path, env: dict[str, str]) -> None:
    process = await asyncio.create_subprocess_exec(
        "sh", "-euc", script, cwd=folder, env=env, stdout=PIPE, stderr=STDOUT
    )
    out, _ = await process.communicate()
    assert process.returncode == 0, out.decode()


async def test_graceful_restarts_are_not_held_against_a_run(bench: Bench) -> None:
    run_id = await bench.ask()
    for _ in range(7):
        worker = await bench.start_worker(stop_seconds=0)  # the step is cut, not waited for
        assert (await bench.event())[0] == "0"
        run = await bench.runs.get(RunId(run_id))
        assert run is not None
        assert run.fruitless_starts == 1
        worker.send_signal(signal.SIGINT)
        assert await worker.wait() == 0


async def test_a_run_that_kills_its_workers_is_not_handed_on_for_ever(bench: Bench) -> None:
    run_id = await bench.ask()
    for _ in range(3):
        worker = await bench.start_worker()
        assert await bench.event() == ("0", worker.pid)
        await bench.kill(worker, run_id)
    await bench.start_worker()
    assert (await bench.event())[0] == "gave up no"
    run = await bench.ended(run_id)
    assert (run.status, run.failure) == (RunStatus.FAILED, Failure.NO_PROGRESS)


async def test_a_worker_waits_for_a_redis_that_is_away_and_goes_on_where_it_was(
    own_redis_server: RedisServer, redis_prefix: str
) -> None:
    async with opened(own_redis_server.url, redis_prefix) as bench:
        worker = await bench.start_worker()
        run_id = await bench.ask()
        assert await bench.event() == ("0", worker.pid)
        await bench.let_go()
        assert await bench.event() == ("1", worker.pid)
        own_redis_server.stop()
        lines = await said(worker, "Redis does not answer")
        own_redis_server.start()
        lines += await said(worker, "Redis answers again")
        assert not any("Traceback" in line for line in lines)
        await bench.let_go(2)
        assert (await bench.ended(run_id)).status is RunStatus.OPENED_PULL_REQUEST


async def test_a_frozen_redis_costs_no_more_than_the_time_it_was_frozen(
    own_redis_server: RedisServer, redis_prefix: str
) -> None:
    async with opened(own_redis_server.url, redis_prefix) as bench:
        worker = await bench.start_worker(lease_seconds=3)
        run_id = await bench.ask()
        assert await bench.event() == ("0", worker.pid)
        own_redis_server.freeze()
        await said(worker, "Redis does not answer")
        await said(worker, "the lease was lost")
        own_redis_server.thaw()
        assert (await bench.event())[0] == "0"
        await bench.let_go(3)
        assert (await bench.ended(run_id)).status is RunStatus.OPENED_PULL_REQUEST


@pytest.mark.parametrize(
    ("setting", "full", "empty"),
    [
        pytest.param("maxmemory", "1", "0", id="memory is full"),
        pytest.param("min-replicas-to-write", "1", "0", id="replicas are away"),
    ],
)
async def test_a_worker_rides_out_a_redis_that_takes_no_writes(
    own_redis_server: RedisServer, redis_prefix: str, setting: str, full: str, empty: str
) -> None:
    async with opened(own_redis_server.url, redis_prefix) as bench:
        run_id = await bench.ask()
        await bench.redis.config_set(setting, full)
        worker = await bench.start_worker()
        lines = await said(worker, "Redis takes no writes")
        await bench.redis.config_set(setting, empty)
        lines += await said(worker, "Redis answers again")
        assert not any("Traceback" in line for line in lines), "".join(lines)
        assert await bench.event() == ("0", worker.pid)
        await bench.let_go(3)
        assert (await bench.ended(run_id)).status is RunStatus.OPENED_PULL_REQUEST


async def test_a_worker_can_start_before_redis(tmp_path: Path, redis_prefix: str) -> None:
    server = RedisServer(tmp_path)
    async with opened(server.url, redis_prefix) as bench:
        worker = await bench.start_worker()
        lines = await said(worker, "Redis does not answer")
        assert not any("Traceback" in line for line in lines)
        server.start()
        try:
            run_id = await bench.ask()
            assert await bench.event() == ("0", worker.pid)
            await bench.let_go(3)
            assert (await bench.ended(run_id)).starts == 1
        finally:
            server.stop()
