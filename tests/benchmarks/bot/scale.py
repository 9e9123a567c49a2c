"""10,000 repositories, 100,000 finished and 1,000 waiting runs, beside a tenth of each.

A ratio of 10 is linear growth, 1 is none. What Redis was asked is counted: times are the machine's
as well. Records are made by the code that makes them in use, but 100,000 ended runs are written in
bulk.
"""

import os
import statistics
import tempfile
import time
from collections.abc import Awaitable, Callable
from contextlib import suppress
from datetime import timedelta
from pathlib import Path
from typing import Final

import httpx
from pydantic import SecretStr

from bot.data.run import Lane, Login, RepoRef, Run, RunId, RunStatus, now
from bot.queue.attempt import RunAttempt
from bot.queue.position import load_queue
from bot.queue.worker import WorkerSlots
from bot.server.app import create_app
from bot.server.connections import serve_app
from bot.settings import Settings
from bot.storage.lease import Lease
from bot.storage.storage import Storage
from pipeline.store import encode_record
from tests.benchmarks.redis_server import run_redis
from tests.benchmarks.table import Row
from tests.support.redis_traffic import count_traffic

WHOLE: Final = (10_000, 100_000, 1_000)
"""Repositories, ended runs, waiting runs."""
TIMES: Final = 5
BATCH: Final = 1_000


async def measure() -> list[Row]:
    small = await _measure_at(*(count // 10 for count in WHOLE))
    whole = await _measure_at(*WHOLE)
    counts = "1,000 repositories, 10,000 ended, 100 waiting"
    return [
        Row(f"scale: {name}", value, unit, counts, small[name][0])
        for name, (value, unit) in whole.items()
    ]


async def _measure_at(repos: int, ended: int, waiting: int) -> dict[str, tuple[float, str]]:
    with tempfile.TemporaryDirectory() as folder:
        async with run_redis(Path(folder)) as url:
            secret = SecretStr("secret")
            settings = Settings(redis_url=url, webhook_secret=secret, dashboard_token=secret)
            async with Storage.open(url, settings.redis_prefix, timeout=60) as storage:
                await _populate(storage, repos, ended, waiting)
                memory = await storage.redis.info("memory")
                found = {"Redis, memory": (memory["used_memory"] / 1e6, "MB")}
                before = _count_bytes()
                for name, act in {
                    "look of a worker with a free slot": lambda: _look(storage, Lane.ISSUES),
                    "its look for work on pull requests": lambda: _look(storage, Lane.PULLS),
                    "look of a full worker": lambda: _look_when_full(storage),
                    "places in the queue": lambda: _list_places(storage),
                    "start of one more run": lambda: _start(storage, repos),
                }.items():
                    found[f"{name}, first"] = await _time(act, times=1)
                    found[name] = await _time(act)
                    async with count_traffic(storage.redis) as traffic:
                        await act()
                    found[f"{name}, commands"] = (traffic.commands, "")
                    found[f"{name}, bytes"] = (traffic.kilobytes, "kB")
            found["worker, memory for all that"] = (max(_count_bytes() - before, 0) / 1e6, "MB")
            before = _count_bytes()
            found |= await _measure_pages(settings)
            found["server, memory for its pages"] = (max(_count_bytes() - before, 0) / 1e6, "MB")
    return found


def _count_bytes() -> int:
    """What this process has in memory."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


async def _measure_pages(settings: Settings) -> dict[str, tuple[float, str]]:
    async with (
        serve_app(create_app(settings), "127.0.0.1", 0) as server,
        httpx.AsyncClient(trust_env=False, timeout=120) as client,
    ):

        async def get(path: str) -> None:
            headers = {"Authorization": "Bearer secret"}
            answer = await client.get(f"{server}{path}", headers=headers)
            answer.raise_for_status()

        return {
            "/runs": await _time(lambda: get("/runs")),
            "/metrics": await _time(lambda: get("/metrics")),
        }


async def _populate(storage: Storage, repos: int, ended: int, waiting: int) -> None:
    names = [_repo(number) for number in range(repos)]
    at = now()
    for first in range(0, ended, BATCH):
        async with storage.redis.pipeline(transaction=False) as pipe:
            for number in range(first, min(first + BATCH, ended)):
                when = at - timedelta(seconds=20 * number)
                run = Run(
                    id=RunId(f"{number:032x}"),
                    repo=names[number % repos],
                    issue=number,
                    asked_by=Login("alice"),
                    delivery=f"{number}",
                    status=RunStatus.OPENED_PULL_REQUEST,
                    created_at=when,
                    finished_at=when,
                    dollars=0.5,
                )
                pipe.set(storage.keys.run(run.id), encode_record(run))
                pipe.zadd(storage.keys.ended, {run.id: when.timestamp()})
            await pipe.execute()
    for number in range(waiting):
        await _create(storage, names[number % repos], number)


def _repo(number: int) -> RepoRef:
    return RepoRef(id=number, owner=f"owner{number % 997}", name=f"repo{number}", installation=1)


async def _create(storage: Storage, repo: RepoRef, number: int) -> None:
    await storage.runs.create(
        repo, 1_000_000 + number, asked_by=Login("alice"), delivery=f"waiting-{number}"
    )


async def _look(storage: Storage, lane: Lane) -> None:
    """A worker with a free slot chooses whose turn it is; here it takes up none."""
    await _fill(storage, lane, slots=1)


async def _look_when_full(storage: Storage) -> None:
    await _fill(storage, Lane.ISSUES, slots=0)


async def _fill(storage: Storage, lane: Lane, slots: int) -> None:
    async def acquire(_run_id: RunId) -> None:
        raise _Chosen

    with suppress(_Chosen):
        await WorkerSlots(slots, _begin_nothing, lambda: None).fill(lane, storage, acquire)


class _Chosen(Exception):
    """A run was chosen, which is enough."""


def _begin_nothing(_lease: Lease) -> RunAttempt:
    raise NotImplementedError


async def _list_places(storage: Storage) -> None:
    await load_queue(storage)


async def _start(storage: Storage, repos: int) -> None:
    number = time.monotonic_ns()
    await _create(storage, _repo(number % repos), number)


async def _time(act: Callable[[], Awaitable[None]], times: int = TIMES) -> tuple[float, str]:
    """The median of some times, in milliseconds."""
    took: list[float] = []
    for _ in range(times):
        begun = time.perf_counter()
        await act()
        took.append((time.perf_counter() - begun) * 1000)
    return statistics.median(took), "ms"
