"""The client, where redis-py alone loses a cancellation, and that it is closed."""

from __future__ import annotations

import asyncio

import httpx
from redis.asyncio import Redis

from bot.localhub.serve import serve_app
from bot.server.app import create_app
from bot.settings import Settings
from bot.storage.client import open_redis
from tests.support.redis import RedisServer


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
            done, _ = await asyncio.wait([talking], timeout=30)
            assert done, f"still talking after a cancellation at turn {turns}"


async def test_a_server_that_ends_closes_its_connections(
    settings: Settings, redis: Redis, redis_server: RedisServer
) -> None:
    last = int(await redis.client_id())
    async with serve_app(create_app(settings), "127.0.0.1", 0) as server:
        async with httpx.AsyncClient(trust_env=False, timeout=60) as client:
            assert (await client.get(f"{server}/readyz")).status_code == 200
        assert redis_server.clients_since(last)
    async with asyncio.timeout(60):
        while redis_server.clients_since(last):
            await asyncio.sleep(0.01)
