"""A worker in a process of its own, whose work takes its steps when the test says so.

Each step tells `{prefix}events` what it is, then waits for a token from `{prefix}gate`.
"""

import asyncio
import logging
import os
import sys
from collections.abc import Awaitable
from typing import Any, Final, cast

from pydantic import BaseModel
from redis.asyncio import Redis

from bot.data.run import Run, RunStatus
from bot.queue.worker import Worker
from bot.settings import Settings, Timings
from bot.storage.client import waiting_client
from bot.storage.lease import Lease
from pipeline import store as records
from sandbox.frozen import replace
from tests.support.handlers import handlers_of

STEPS: Final = 3


class Done(BaseModel):
    steps: int = 0


async def stepwise(run: Run, lease: Lease) -> Run:
    """Three steps with a checkpoint after each."""
    store = lease.checkpoints
    connection = Redis.from_url(Settings.from_env().redis_url)
    gate = waiting_client(connection)
    try:
        done = await store.load("steps", Done) or Done()
        while done.steps < STEPS:
            async with lease.in_flight.billable():
                await _step(gate, lease.storage.keys.prefix, done.steps)
            done = Done(steps=done.steps + 1)
            await store.save("steps", done)
            await lease.require()
    finally:
        await connection.aclose()
    return replace(run, status=RunStatus.OPENED_PULL_REQUEST)


async def _step(gate: Redis, prefix: str, step: int) -> None:
    said = f"{step} {os.getpid()}"
    await cast("Awaitable[int]", gate.rpush(f"{prefix}events", said))
    await cast("Awaitable[object]", gate.blpop([f"{prefix}gate"]))


async def give_up(run: Run, lease: Lease) -> Run:
    await cast(
        Awaitable[int],
        lease.storage.redis.rpush(f"{lease.storage.keys.prefix}events", f"gave up {run.failure}"),
    )
    return run


if __name__ == "__main__":
    cast(Any, records).FORMAT = int(sys.argv[1])  # the next release writes another
    logging.basicConfig(level=logging.INFO, stream=sys.stderr, format="%(name)s %(message)s")
    logging.getLogger("arq").setLevel(logging.WARNING)
    lease, stop = map(float, sys.argv[2:])
    timings = Timings(sweep_seconds=0.2, lease_seconds=lease, stop_seconds=stop)
    quick = replace(Settings.from_env(), timings=timings)
    worker = Worker(quick, handlers_of(stepwise, give_up))
    asyncio.run(worker.run_until_signalled())
