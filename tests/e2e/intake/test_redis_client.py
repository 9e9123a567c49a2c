"""The client, at the moment where redis-py alone loses a cancellation."""

from __future__ import annotations

import asyncio

from bot.redis_client import open_redis
from tests.redis import RedisServer


async def test_a_task_that_talks_to_redis_can_be_cancelled_at_any_moment(
    redis_server: RedisServer,
) -> None:
    async with open_redis(redis_server.url, timeout=5) as redis:

        async def talk() -> None:
            while True:
                await redis.ping()

        for turns in range(200):
            talking = asyncio.create_task(talk())
            for _ in range(turns):
                await asyncio.sleep(0)
            talking.cancel()
            done, _ = await asyncio.wait([talking], timeout=2)
            assert done, f"still talking after a cancellation at turn {turns}"
