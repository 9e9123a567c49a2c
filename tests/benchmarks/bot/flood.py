"""A flood: 200 webhooks a second, a third of them forged, slow or huge, for a minute.

The server is `capuchin serve`; the runs that it records are counted in Redis. Every fiftieth honest
webhook is delivered twice. Beside it, two whole runs (`capuchin demo`) take their share of the
machine. The figures are of the machine as it was: the load average stands with them.
"""

from __future__ import annotations

import asyncio
import os
import random
import sys
import tempfile
from collections.abc import Awaitable, Callable
from pathlib import Path

from bot.demo.redis_server import find_free_port
from bot.settings import Settings
from bot.storage.storage import Storage
from tests.benchmarks.bot.load import (
    Load,
    build_delivery,
    build_head,
    read_answer,
    resident_megabytes,
    send_on_timetable,
    serve,
    serve_command,
    sign,
)
from tests.benchmarks.redis_server import run_redis
from tests.benchmarks.table import Row, percentile

PER_SECOND = 200
SECONDS = 60
RUNS_BESIDE = 2
DEMO_SECONDS = 300
"""After the flood; an idle machine needs a fraction of it."""
FORGED = "sha256=" + "0" * 64
HUGE = 20 * 1024 * 1024
LARGE_SHARE = 0.02
"""Of the hostile deliveries; each sends 20 MiB, which costs the generator as well."""


async def measure() -> list[Row]:
    with tempfile.TemporaryDirectory() as folder:
        async with run_redis(Path(folder)) as redis_url:
            port = find_free_port()
            argv, env = serve_command(port, redis_url)
            async with serve(argv, port, env) as process:
                beside = [await _start_demo() for _ in range(RUNS_BESIDE)]
                honest, answers = await _flood(port)
                memory = resident_megabytes(process.pid)
                load = os.getloadavg()[0]
            finished = [await _wait_for(demo) for demo in beside]
            async with Storage.open(redis_url, Settings().redis_prefix, timeout=10) as storage:
                runs = await storage.runs.list_active()
    accepted = honest.statuses.get(202, 0)
    wanted = f"{PER_SECOND}/s for {SECONDS} s, a third hostile"
    return [
        Row("flood: honest webhooks, p50", percentile(honest.milliseconds, 0.5), "ms", wanted, 50),
        Row("flood: honest webhooks, p99", percentile(honest.milliseconds, 0.99), "ms", wanted, 50),
        Row("flood: honest webhooks without an answer", honest.failed, "", wanted, 0),
        Row("flood: runs recorded", len(runs), "", "honest webhooks taken", accepted),
        Row("flood: hostile webhooks answered", answers, "", wanted, 0),
        Row("flood: memory of the server", memory, "MB", "limit", 250),
        Row("flood: runs beside that opened their pull request", finished.count(0), "", "begun",
            RUNS_BESIDE),
        Row("flood: load average", load, "", "processors", os.cpu_count() or 1),
    ]  # fmt: skip


async def _start_demo() -> asyncio.subprocess.Process:
    quiet = asyncio.subprocess.DEVNULL
    return await asyncio.create_subprocess_exec(
        sys.executable, "-m", "bot", "demo", stdin=quiet, stdout=quiet, stderr=quiet
    )


async def _wait_for(demo: asyncio.subprocess.Process) -> int:
    """Its exit code; another than 0 if it takes too long."""
    try:
        async with asyncio.timeout(DEMO_SECONDS):
            return await demo.wait()
    except TimeoutError:
        demo.terminate()
        return await demo.wait()


async def _flood(port: int) -> tuple[Load, int]:
    share = PER_SECOND * 2 // 3
    # Every fiftieth is the one before, once more.
    numbers = [n - (n % 50 == 49) for n in range(share * SECONDS)]
    deliveries = [build_delivery(number) for number in numbers]
    hostile = asyncio.create_task(_attack(port, PER_SECOND - share))
    honest = await send_on_timetable(port, deliveries, share)
    return honest, await hostile


async def _attack(port: int, per_second: int) -> int:
    """Start so many hostile connections a second; how many of them got an answer."""
    chance = random.Random(16)
    kinds: list[Callable[[int], Awaitable[int]]] = [_send_forged, _drip_headers, _drip_body]
    tasks: list[asyncio.Task[int]] = []
    for _ in range(per_second * SECONDS):
        kind = _send_huge if chance.random() < LARGE_SHARE else chance.choice(kinds)
        tasks.append(asyncio.ensure_future(_try(kind, port)))
        await asyncio.sleep(1 / per_second)
    return sum(await asyncio.gather(*tasks))  # noqa: TID251 - none of them fails


async def _try(kind: Callable[[int], Awaitable[int]], port: int) -> int:
    try:
        async with asyncio.timeout(30):
            return await kind(port)
    except (OSError, TimeoutError, asyncio.IncompleteReadError):
        return 0


async def _send(port: int, *pieces: bytes, pause: float = 0.0) -> int:
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    try:
        for piece in pieces:
            writer.write(piece)
            await writer.drain()
            await asyncio.sleep(pause)
        await read_answer(reader)
    finally:
        writer.transport.abort()
    return 1


async def _send_forged(port: int) -> int:
    return await _send(port, build_head(FORGED, 12_000, 0) + b"x" * 12_000)


async def _drip_headers(port: int) -> int:
    return await _send(port, *[b"P", b"O", b"S", b"T", b" "] * 5, pause=1.0)


async def _drip_body(port: int) -> int:
    return await _send(port, build_head(sign(b""), 10_000, 0), *[b"x"] * 25, pause=1.0)


async def _send_huge(port: int) -> int:
    piece = b"x" * (1024 * 1024)
    return await _send(port, build_head(FORGED, HUGE, 0), *[piece] * (HUGE // len(piece)))
