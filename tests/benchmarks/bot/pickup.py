"""How soon a worker takes up what the server has queued: a run, and the request of a comment."""

import asyncio
import statistics
import tempfile
import time
from collections.abc import Awaitable, Callable
from pathlib import Path

from redis.asyncio import Redis

from bot.data.request import PullUpdate
from bot.data.run import Login, RepoRef, Run, RunStatus
from bot.queue.jobs import RunQueue
from bot.queue.worker import Worker
from bot.settings import Settings
from bot.storage.lease import Lease
from bot.storage.requests import QueuedRequest
from bot.storage.storage import Storage
from sandbox.frozen import replace
from tests.benchmarks.redis_server import run_redis
from tests.benchmarks.table import Row
from tests.support.handlers import handlers_of

TIMES = 60
REPO = RepoRef(id=1, owner="acme", name="shop", installation=1)
IDLE_SECONDS = 20.0


class Stopwatch:
    """Sends one thing after the other, and takes the time until a worker has each."""

    def __init__(self) -> None:
        self.took: list[float] = []
        self._sent = 0.0

    def stop(self) -> None:
        self.took.append((time.perf_counter() - self._sent) * 1000)

    async def measure(self, send: Callable[[int], Awaitable[object]]) -> float:
        """The median in milliseconds."""
        for number in range(TIMES):
            await asyncio.sleep(0.05 + (number * 37 % 50) / 100)  # in step with no poll
            self._sent = time.perf_counter()
            await send(number)
            while len(self.took) <= number:
                await asyncio.sleep(0.002)
        return statistics.median(self.took)


async def measure() -> list[Row]:
    runs, requests = Stopwatch(), Stopwatch()

    async def work(run: Run, _lease: Lease) -> Run:
        runs.stop()
        return replace(run, status=RunStatus.STOPPED)

    async def execute(_item: QueuedRequest, _queue: RunQueue) -> None:
        requests.stop()

    with tempfile.TemporaryDirectory() as folder:
        async with run_redis(Path(folder)) as url, Redis.from_url(url) as redis:
            worker = Worker(Settings(redis_url=url), handlers_of(work, work), execute=execute)
            task = asyncio.create_task(worker.run())
            queue = RunQueue(Storage(redis, Settings().redis_prefix))

            async def send_run(number: int) -> None:
                asked = await queue.runs.create(
                    REPO, number, asked_by=Login("alice"), delivery=str(number)
                )
                await queue.send(asked.run_id, 0)

            async def send_request(number: int) -> None:
                await queue.put(PullUpdate(repo=REPO, target="base", delivery=str(number)))

            medians = [await runs.measure(send_run), await requests.measure(send_request)]
            asked = await _measure_idle(redis)
            worker.stop()
            await task
    poll = ("half of arq's poll", 250.0)
    return [
        Row("worker pick-up of a run, median", medians[0], "ms", *poll),
        Row("worker pick-up of a command, median", medians[1], "ms", *poll),
        Row("commands of an idle worker to Redis", asked, "/s", "arq's own", 2.0),
    ]


async def _measure_idle(redis: Redis) -> float:
    """Commands in a second, those of scripts and our own two among them."""
    before = (await redis.info("stats"))["total_commands_processed"]
    await asyncio.sleep(IDLE_SECONDS)
    return ((await redis.info("stats"))["total_commands_processed"] - before) / IDLE_SECONDS
