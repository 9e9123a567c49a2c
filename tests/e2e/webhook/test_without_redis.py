"""The server when Redis is away: it says so, accepts nothing, and recovers by itself."""

import asyncio
import re
from collections.abc import AsyncGenerator

import httpx
import pytest
from redis.asyncio import Redis

from bot.server.app import create_app
from bot.settings import Settings, SettingsError
from sandbox.frozen import replace
from tests.e2e.webhook.delivery import deliver, labeled, serving
from tests.support.redis import RedisServer


@pytest.fixture
async def hasty_client(
    settings: Settings, own_redis_server: RedisServer
) -> AsyncGenerator[httpx.AsyncClient]:
    """Of a server that gives up on a Redis which is slow, as in use."""
    own = replace(settings, redis_url=own_redis_server.url)
    async with serving(create_app(own)) as client:
        yield client


@pytest.fixture
async def client(
    settings: Settings, own_redis_server: RedisServer, monkeypatch: pytest.MonkeyPatch
) -> AsyncGenerator[httpx.AsyncClient]:
    """Of a server that waits for a Redis which is slow because the machine is busy."""
    monkeypatch.setattr("bot.server.app.REDIS_SECONDS", 120)
    async with serving(create_app(replace(settings, redis_url=own_redis_server.url))) as client:
        yield client


async def test_a_delivery_is_refused_while_redis_is_away_and_can_be_redelivered(
    client: httpx.AsyncClient, own_redis_server: RedisServer
) -> None:
    own_redis_server.stop()
    refused = await deliver(client, labeled(), delivery="guid")
    assert refused.status_code == 503
    assert "Redeliver" in refused.json()["error"]
    unready = await client.get("/readyz")
    assert unready.status_code == 503
    assert "Redis" in unready.json()["reason"]
    assert (await client.get("/healthz")).status_code == 200
    own_redis_server.start()
    assert (await deliver(client, labeled(), delivery="guid")).status_code == 202
    assert (await client.get("/readyz")).status_code == 200


@pytest.mark.parametrize("state", ["memory", "replica", "loading"])
async def test_a_delivery_is_refused_and_the_reason_told_while_redis_takes_no_writes(
    client: httpx.AsyncClient, own_redis_server: RedisServer, state: str
) -> None:
    async with Redis.from_url(own_redis_server.url) as redis:
        match state:
            case "memory":
                await redis.config_set("maxmemory", "1")
            case "replica":
                await redis.replicaof("127.0.0.1", 1)
            case _:
                async with redis.pipeline() as pipe:
                    for number in range(30_000):
                        pipe.set(str(number), "")
                    await pipe.execute()
                own_redis_server.stop()
                own_redis_server.start("--key-load-delay", "300", loaded=False)
        unready = await client.get("/readyz")
        assert (unready.status_code, state in unready.json()["reason"]) == (503, True)
        assert (await deliver(client, labeled(), delivery="guid")).status_code == 503
        match state:
            case "memory":
                await redis.config_set("maxmemory", "0")
            case "replica":
                await redis.replicaof("NO", "ONE")
            case _:
                own_redis_server.stop()
                own_redis_server.start()
    assert (await client.get("/readyz")).status_code == 200
    assert (await deliver(client, labeled(), delivery="guid")).status_code == 202


async def test_a_server_that_starts_without_redis_says_so_once(
    settings: Settings, own_redis_server: RedisServer, caplog: pytest.LogCaptureFixture
) -> None:
    own_redis_server.stop()
    own = replace(settings, redis_url=own_redis_server.url)

    def said() -> list[str]:
        return [one.message for one in caplog.records if "Redis" in one.message]

    async with serving(create_app(own)):
        while not said():
            await asyncio.sleep(0.01)
        await asyncio.sleep(0.3)  # it asks again meanwhile
        assert len(said()) == 1
        own_redis_server.start()
        while len(said()) == 1:
            await asyncio.sleep(0.01)


async def test_an_outage_that_only_a_probe_meets_is_told_once_and_so_is_its_end(
    client: httpx.AsyncClient, own_redis_server: RedisServer, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO")
    assert (await client.get("/readyz")).status_code == 200
    own_redis_server.stop()
    for _ in range(2):
        assert (await client.get("/readyz")).status_code == 503
    own_redis_server.start()
    for _ in range(2):
        assert (await client.get("/readyz")).status_code == 200
    said = [one.message for one in caplog.records if "Redis" in one.message]
    assert len(said) == 2, said
    assert re.search(r"127\.0\.0\.1:\d+: nothing listens there", said[0])


async def test_a_frozen_redis_is_answered_before_github_gives_up(
    hasty_client: httpx.AsyncClient, own_redis_server: RedisServer
) -> None:
    own_redis_server.freeze()
    try:
        assert (await deliver(hasty_client, labeled())).status_code == 503
    finally:
        own_redis_server.thaw()


async def test_what_was_accepted_survives_a_restart_of_redis(
    client: httpx.AsyncClient, own_redis_server: RedisServer, redis_prefix: str
) -> None:
    answer = await deliver(client, labeled())
    own_redis_server.stop()
    own_redis_server.start()
    replay = await deliver(client, labeled(), delivery="another")
    assert replay.json() == {"run": answer.json()["run"], "status": "running"}


def test_an_address_that_is_no_redis_is_reported_at_the_start(settings: Settings) -> None:
    with pytest.raises(SettingsError, match="CAPUCHIN_REDIS_URL"):
        create_app(replace(settings, redis_url="http://x"))
