"""From the acknowledged webhook to a worker's first line, against arq's default poll of 0.5 s."""

from __future__ import annotations

import asyncio
import statistics
import tempfile
import time
from contextlib import suppress
from pathlib import Path

from arq import Worker, create_pool, func
from arq.connections import RedisSettings
from redis.asyncio import Redis

from bot.data.run import Login, RepoRef, Run, RunStatus
from bot.queue import worker as ours
from bot.queue.nudges import Nudges
from bot.settings import Settings
from bot.storage.lease import Lease
from bot.storage.storage import Storage
from sandbox.frozen import replace
from tests.benchmarks.redis_server import run_redis
from tests.benchmarks.table import Row
from tests.support.handlers import handlers_of

RUNS = 60


async def measure() -> list[Row]:
    with tempfile.TemporaryDirectory() as folder:
        async with run_redis(Path(folder)) as url:
            mine, plain = await _capuchin(url), await _arq_alone(url)
    return [
        Row(
            "worker pick-up, median",
            statistics.median(mine),
            "ms",
            "an arq worker with its default poll",
            statistics.median(plain),
        )
    ]


async def _capuchin(url: str) -> list[float]:
    sent: dict[int, float] = {}
    took: list[float] = []

    async def work(run: Run, _lease: Lease) -> Run:
        took.append((time.perf_counter() - sent[run.issue]) * 1000)
        return replace(run, status=RunStatus.STOPPED)

    async def give_up(run: Run, _lease: Lease) -> Run:
        return run

    worker = ours.Worker(Settings(redis_url=url), handlers_of(work, give_up))
    task = asyncio.create_task(worker.run())
    async with Redis.from_url(url) as redis:
        storage = Storage(redis, Settings().redis_prefix)
        runs, nudges = storage.runs, Nudges(storage)
        for number in range(RUNS):
            await _pause(number)
            sent[number] = time.perf_counter()
            repo = RepoRef(id=1, owner="acme", name="shop", installation=1)
            asked = await runs.create(repo, number, asked_by=Login("alice"), delivery=str(number))
            await nudges.send(asked.run_id, 0)
            while len(took) <= number:
                await asyncio.sleep(0.002)
    worker.stop()
    await task
    return took


async def _arq_alone(url: str) -> list[float]:
    took: list[float] = []

    async def begin(_ctx: dict[str, object], sent: float) -> None:
        took.append((time.perf_counter() - sent) * 1000)

    queue = await create_pool(RedisSettings.from_dsn(url), default_queue_name="plain")
    async with queue:
        job = func(begin, name="begin")  # pyright: ignore[reportArgumentType] - arq wants its own ctx
        worker = Worker([job], redis_pool=queue, queue_name="plain", handle_signals=False)
        task = asyncio.create_task(worker.async_run())
        for number in range(RUNS):
            await _pause(number)
            await queue.enqueue_job("begin", time.perf_counter())
            while len(took) <= number:
                await asyncio.sleep(0.002)
        task.cancel()
        await asyncio.wait([task])
        with suppress(asyncio.CancelledError):  # arq hands its jobs' cancellation on
            await worker.close()
    return took


async def _pause(number: int) -> None:
    """Arrivals that do not march in step with any poll."""
    await asyncio.sleep(0.05 + (number * 37 % 50) / 100)
