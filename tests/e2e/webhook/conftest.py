from __future__ import annotations

from collections.abc import AsyncGenerator

import httpx
import pytest
from pydantic import SecretStr
from redis.asyncio import Redis

from bot.server.app import create_app
from bot.settings import Settings, Timings
from bot.storage.runs import Runs
from bot.storage.storage import Storage
from tests.e2e.webhook.delivery import SECRET, serving
from tests.support.redis import RedisServer


@pytest.fixture
def settings(redis_server: RedisServer, redis_prefix: str) -> Settings:
    return Settings(
        webhook_secret=SecretStr(SECRET),
        redis_url=redis_server.url,
        redis_prefix=redis_prefix,
        lease_seconds=3,
        timings=Timings(sweep_seconds=0.2),
        stop_seconds=10,
    )


@pytest.fixture
def storage(redis: Redis, redis_prefix: str) -> Storage:
    return Storage(redis, redis_prefix)


@pytest.fixture
def runs(storage: Storage) -> Runs:
    return storage.runs


@pytest.fixture
async def client(settings: Settings) -> AsyncGenerator[httpx.AsyncClient]:
    async with serving(create_app(settings)) as client:
        yield client
