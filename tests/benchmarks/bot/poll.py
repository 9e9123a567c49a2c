"""What `capuchin worker --poll 30` asks of GitHub in an hour in which nothing happens.

The looks are those of workers at the local GitHub: one with a new token, as once an hour, and one
as all the others. Requests that are answered 304 do not count against the 5,000 an hour.
"""

import asyncio
import tempfile
from collections.abc import AsyncIterator, Coroutine
from pathlib import Path
from typing import Any, Final

from redis.asyncio import Redis

from bot.data.request import MissedEvent
from bot.github.app import GitHubApp
from bot.queue.jobs import RunQueue
from bot.queue.missed_webhooks import REPOSITORY_SECONDS, find_missed_events
from bot.queue.sweep import FindMissedEvents, Sweep, SweepActions
from bot.settings import Settings
from bot.storage.client import Outage
from bot.storage.storage import Storage
from bot.storage.workers import Cursors
from bot.webhooks.labels import BotNames
from capuchin_demo.hub.tokens import generate_app
from prompts.text import agree, pluralize
from sandbox.frozen import replace
from tests.benchmarks.redis_server import run_redis
from tests.benchmarks.table import Row
from tests.support.github.hub import LocalHub
from tests.support.hub import settings_for

CASES: Final = ((1, 1), (10, 1), (100, 1), (300, 2))
"""How many repositories and workers."""
SECONDS: Final = 30
LOOKS: Final = 6
"""The first begins the cursors, the second the ETags."""


async def measure() -> list[Row]:
    rows: list[Row] = []
    for count, workers in CASES:
        looks = await _measure_looks(count, workers)
        quiet = max(counted for _, counted in looks[2:-1])
        many = round(3600 / max(SECONDS, count * REPOSITORY_SECONDS))
        asked, counted = (a + (many - 1) * b for a, b in zip(looks[-1], looks[-2], strict=True))
        repositories = agree(count, "repository", "repositories")
        name = f"{count} {repositories}, {pluralize(workers, 'worker')}"
        rows.append(Row(f"calls of a quiet look at {name}, counted", quiet, "", "the most", 5))
        name = f"calls an hour with {name}, --poll 30"
        rows.append(Row(f"{name}, sent", asked, "", "GitHub's limit in all", 900 * 60))
        rows.append(Row(f"{name}, counted", counted, "", "an installation's limit", 5000))
    return rows


async def _measure_looks(count: int, workers: int) -> list[tuple[int, int]]:
    """The requests of each look in all, and those that count against the installation's limit.

    The last look is one with a new token.
    """
    with tempfile.TemporaryDirectory() as folder:
        async with run_redis(Path(folder)) as url, Redis.from_url(url) as redis:
            hub = LocalHub(Path(folder) / "hub", "", generate_app())
            async with hub.serve():
                for number in range(count):
                    hub.add_repo(f"acme/shop{number}", {"shop.py": "x = 1\n"})
                looks: list[tuple[int, int]] = []
                settings, storage = settings_for(hub), Storage(redis, "capuchin:")
                loops = [
                    asyncio.create_task(loop)
                    for _ in range(workers)
                    for loop in _list_loops(hub, settings, storage, looks)
                ]
                while len(looks) < LOOKS:
                    await asyncio.sleep(0.05)
                for loop in loops:
                    loop.cancel()
                await asyncio.wait(loops)
                del looks[LOOKS:]
                look = _build_look(hub, settings, looks)
                async for _ in look(storage.cursors):
                    continue
    return looks


def _list_loops(
    hub: LocalHub, settings: Settings, storage: Storage, looks: list[tuple[int, int]]
) -> list[Coroutine[Any, Any, None]]:
    """Those of a worker that does nothing but look, as often as it may, and adds to `looks`."""
    timings = replace(settings.timings, missed_seconds=0.2)
    actions = SweepActions(find_missed=_build_look(hub, settings, looks))
    queue = RunQueue(storage)
    return Sweep(queue, actions, Outage(), timings=timings, label="capuchin").list_loops()


def _build_look(
    hub: LocalHub, settings: Settings, looks: list[tuple[int, int]]
) -> FindMissedEvents:
    app, names = GitHubApp(settings), BotNames.of(settings)

    async def look(cursors: Cursors) -> AsyncIterator[MissedEvent]:
        begin, left = len(hub.requests), hub.limit.remaining
        async for _ in find_missed_events(app, names, cursors):
            continue
        looks.append((len(hub.requests) - begin, left - hub.limit.remaining))
        for nothing in ():
            yield nothing

    return look
