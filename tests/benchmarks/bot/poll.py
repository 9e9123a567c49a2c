"""What `capuchin worker --poll 30` asks of GitHub in an hour in which nothing happens.

The looks are those of a worker, at the local GitHub: one with new tokens, as once an hour, and one
as all the others. Requests that are answered 304 do not count against the 5,000 an hour.
"""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Final

from redis.asyncio import Redis

from bot.github.app import GitHubApp
from bot.queue.missed_webhooks import REPOSITORY_SECONDS, find_missed_events
from bot.settings import Settings
from bot.storage.storage import Storage
from bot.webhooks.labels import BotNames
from capuchin_demo.hub.tokens import generate_app
from tests.benchmarks.redis_server import run_redis
from tests.benchmarks.table import Row
from tests.support.github.hub import LocalHub
from tests.support.hub import settings_for

REPOSITORIES: Final = (1, 10, 100)
SECONDS: Final = 30


async def measure() -> list[Row]:
    rows: list[Row] = []
    for count in REPOSITORIES:
        asked, counted = await _measure_hour(count)
        name = f"calls an hour with {count} repositories, --poll 30"
        rows.append(Row(f"{name}, sent", asked, "", "GitHub's limit in all", 900 * 60))
        rows.append(Row(f"{name}, counted", counted, "", "an installation's limit", 5000))
    return rows


async def _measure_hour(count: int) -> tuple[int, int]:
    """The requests in all, and those that count against the installation's limit."""
    with tempfile.TemporaryDirectory() as folder:
        async with (
            run_redis(Path(folder)) as url,
            Redis.from_url(url) as redis,
        ):
            hub = LocalHub(Path(folder) / "hub", "", generate_app())
            async with hub.serve():
                for number in range(count):
                    hub.add_repo(f"acme/shop{number}", {"shop.py": "x = 1\n"})
                settings, storage = settings_for(hub), Storage(redis, "capuchin:")
                await _look(hub, settings, storage, GitHubApp(settings))  # the cursors begin
                app = GitHubApp(settings)
                first = await _look(hub, settings, storage, app)
                later = await _look(hub, settings, storage, app)
    looks = round(3600 / max(SECONDS, count * REPOSITORY_SECONDS))
    sent, counted = (a + (looks - 1) * b for a, b in zip(first, later, strict=True))
    return sent, counted


async def _look(
    hub: LocalHub, settings: Settings, storage: Storage, app: GitHubApp
) -> tuple[int, int]:
    begin, left = len(hub.requests), hub.limit.remaining
    async for _ in find_missed_events(app, BotNames.of(settings), storage.cursors):
        pass
    return len(hub.requests) - begin, left - hub.limit.remaining
