"""10,000 repositories, 100,000 finished and 1,000 waiting runs, beside a tenth of each.

A ratio of 10 is linear growth, 1 is none. Records are made by the code that makes them in use, but
100,000 ended runs are written in bulk.
"""

from __future__ import annotations

import os
import statistics
import tempfile
import time
from collections.abc import Awaitable, Callable
from datetime import timedelta
from pathlib import Path
from typing import Final

import httpx
from pydantic import SecretStr

from bot.localhub.serve import serve_app
from bot.queue.fair import order_fairly
from bot.server.app import create_app
from bot.settings import Settings
from bot.storage.storage import Storage
from bot.types import Login, RepoRef, Run, RunId, RunStatus, now
from pipeline.records import encode_record
from tests.benchmarks.redis_server import run_redis
from tests.benchmarks.table import Row

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
                await _fill(storage, repos, ended, waiting)
                memory = await storage.redis.info("memory")
                found = {"Redis, memory": (memory["used_memory"] / 1e6, "MB")}
                before = _count_bytes()
                found["sweep of the idle runs"] = await _time(lambda: _sweep(storage))
                found["choice of whose turn it is"] = await _time(lambda: _choose(storage))
                found["start of one more run"] = await _time(lambda: _start(storage, repos))
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


async def _fill(storage: Storage, repos: int, ended: int, waiting: int) -> None:
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
    return RepoRef(owner=f"owner{number % 997}", name=f"repo{number}", installation=1)


async def _create(storage: Storage, repo: RepoRef, number: int) -> None:
    await storage.runs.create(
        repo, 1_000_000 + number, asked_by=Login("alice"), delivery=f"waiting-{number}"
    )


async def _sweep(storage: Storage) -> None:
    async for _ in storage.active_runs.list_idle():
        pass


async def _choose(storage: Storage) -> None:
    survey = await storage.active_runs.survey()
    served = await storage.turns.list_served()
    next(iter(order_fairly(survey.idle, survey.working, served)))


async def _start(storage: Storage, repos: int) -> None:
    number = time.monotonic_ns()
    await _create(storage, _repo(number % repos), number)


async def _time(act: Callable[[], Awaitable[None]]) -> tuple[float, str]:
    """The median of some times, in milliseconds."""
    took: list[float] = []
    for _ in range(TIMES):
        begun = time.perf_counter()
        await act()
        took.append((time.perf_counter() - begun) * 1000)
    return statistics.median(took), "ms"
