"""The client, where redis-py alone loses a cancellation, and that it is closed."""

import asyncio
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any

import httpx
import pytest
from redis.asyncio import Redis

from bot.server.app import create_app
from bot.server.connections import serve_app
from bot.settings import Settings
from bot.storage.client import (
    UNREACHABLE,
    describe_redis_error,
    open_redis,
    plain_client,
    waiting_client,
)
from bot.storage.storage import Storage
from tests.support.redis import RedisServer
from tests.support.redis_topologies import run_one_sentinel


@pytest.mark.parametrize(
    ("place", "cause"), [("localhost:1", "nothing listens"), ("nowhere.invalid:1", "is not known")]
)
async def test_why_there_is_no_connection_is_said_with_the_address(place: str, cause: str) -> None:
    async with open_redis(f"redis://:secret@{place}/0", timeout=5) as redis:
        with pytest.raises(UNREACHABLE) as failed:
            await redis.ping()
    said = describe_redis_error(failed.value)
    assert said.startswith(f"{place}: ")
    assert cause in said


async def test_a_task_that_talks_to_redis_can_be_cancelled_at_any_moment(
    redis_server: RedisServer,
) -> None:
    async with open_redis(redis_server.url, timeout=5) as redis:

        async def talk() -> None:
            while True:
                await redis.ping()

        await assert_cancellable(talk)


async def test_a_task_that_asks_a_sentinel_can_be_cancelled_at_any_moment(tmp_path: Path) -> None:
    with run_one_sentinel(tmp_path) as url:

        async def look() -> None:
            while True:
                async with Storage.open(url, "capuchin:", timeout=5) as storage:
                    await storage.ping()

        await assert_cancellable(look)


async def test_a_task_that_watches_a_key_gives_its_connection_back_at_any_moment(
    redis_server: RedisServer,
) -> None:
    async with open_redis(f"{redis_server.url}?max_connections=1", timeout=5) as redis:

        async def watch() -> None:
            while True:
                async with redis.pipeline(transaction=True) as pipe:
                    await pipe.watch("key")
                    await pipe.exists("key")

        async def use_the_only_connection() -> None:
            await redis.exists("key")

        await assert_cancellable(watch, use_the_only_connection)


async def assert_cancellable(
    work: Callable[[], Coroutine[Any, Any, None]],
    after: Callable[[], Coroutine[Any, Any, None]] | None = None,
) -> None:
    """Cancel endless work after each number of turns of the event loop, and see it end."""
    for turns in range(200):
        working = asyncio.create_task(work())
        for _ in range(turns):
            await asyncio.sleep(0)
        working.cancel()
        done, _ = await asyncio.wait([working], timeout=120)
        assert done, f"still working after a cancellation at turn {turns}"
        if after is not None:
            await after()


async def test_a_server_that_ends_closes_its_connections(
    settings: Settings, redis: Redis, redis_server: RedisServer
) -> None:
    last = int(await redis.client_id())
    async with serve_app(create_app(settings), "127.0.0.1", 0) as server:
        async with httpx.AsyncClient(trust_env=False, timeout=120) as client:
            assert (await client.get(f"{server}/readyz")).status_code == 200
        assert redis_server.clients_since(last)
    async with asyncio.timeout(120):
        while redis_server.clients_since(last):
            await asyncio.sleep(0.01)


async def read(redis: Redis) -> object:
    return await redis.get("key")


async def read_by_script(redis: Redis) -> object:
    script: Any = redis.register_script("return redis.call('GET', KEYS[1])")
    return await script(keys=["key"])


async def test_a_waiting_client_gets_its_answer_when_redis_is_back(
    own_redis_server: RedisServer,
) -> None:
    async with open_redis(own_redis_server.url, timeout=5) as redis:
        waiting = waiting_client(redis)
        await waiting.set("key", "before")
        own_redis_server.stop()
        with pytest.raises(UNREACHABLE):
            await plain_client(waiting).get("key")
        asked = [asyncio.create_task(read(waiting)), asyncio.create_task(read_by_script(waiting))]
        done, _ = await asyncio.wait(asked, timeout=0.5)
        assert not done
        own_redis_server.start()
        assert [await one for one in asked] == [b"before", b"before"]


async def test_a_waiting_client_can_be_cancelled_during_an_outage(
    own_redis_server: RedisServer,
) -> None:
    async with open_redis(own_redis_server.url, timeout=5) as redis:
        own_redis_server.stop()
        asked = asyncio.create_task(read(waiting_client(waiting_client(redis))))
        await asyncio.wait([asked], timeout=0.2)
        asked.cancel()
        done, _ = await asyncio.wait([asked], timeout=120)
        assert done
        assert asked.cancelled()
