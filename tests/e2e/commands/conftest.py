from __future__ import annotations

from collections.abc import AsyncGenerator, Callable
from contextlib import AbstractAsyncContextManager
from pathlib import Path

import pytest
from redis.asyncio import Redis

from bot.localhub import LocalHub
from tests.e2e.held_harness import Crew
from tests.e2e.publishing.conftest import office
from tests.support.redis import RedisServer

__all__ = ["crew", "crew_up", "office"]

CrewUp = Callable[..., AbstractAsyncContextManager[Crew]]


@pytest.fixture
def crew_up(
    hub: LocalHub, redis: Redis, redis_server: RedisServer, redis_prefix: str, tmp_path: Path
) -> CrewUp:
    """The bot with settings of the test's own."""

    def up(**fields: object) -> AbstractAsyncContextManager[Crew]:
        given = {"redis_url": redis_server.url, "redis_prefix": redis_prefix, **fields}
        return Crew.up(hub, redis, tmp_path / "data", **given)

    return up


@pytest.fixture
async def crew(crew_up: CrewUp) -> AsyncGenerator[Crew]:
    async with crew_up() as crew:
        yield crew
