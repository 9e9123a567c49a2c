"""Fixtures of a server and workers on the test's Redis, without a GitHub."""

import pytest
from pydantic import SecretStr
from redis.asyncio import Redis

from bot.settings import Settings, Timings
from bot.storage.runs import Runs
from bot.storage.storage import Storage
from tests.support.redis import RedisServer

SECRET = "it's a secret: schön"


@pytest.fixture
def settings(redis_server: RedisServer, redis_prefix: str) -> Settings:
    return Settings(
        webhook_secret=SecretStr(SECRET),
        redis_url=redis_server.url,
        redis_prefix=redis_prefix,
        # No stall of a busy machine takes a lease away.
        timings=Timings(sweep_seconds=0.2, lease_seconds=60, stop_seconds=10),
    )


@pytest.fixture
def storage(redis: Redis, redis_prefix: str) -> Storage:
    return Storage(redis, redis_prefix)


@pytest.fixture
def runs(storage: Storage) -> Runs:
    return storage.runs
