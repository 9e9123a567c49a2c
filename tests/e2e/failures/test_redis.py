"""Redis takes no writes for a while in the middle of a run: nothing is lost, and the run ends."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from typing import cast

import pytest
from redis.asyncio import Redis

from bot.data.run import RunStatus
from capuchin_demo.hub.hub import LocalHub
from tests.e2e.harness import BotHarness
from tests.support.redis import RedisServer

FULL = (("CONFIG SET", "maxmemory", "1"), ("CONFIG SET", "maxmemory", "0"))
READ_ONLY = (("REPLICAOF", "127.0.0.1", "1"), ("REPLICAOF", "NO", "ONE"))


@pytest.fixture
async def fragile(
    hub: LocalHub, own_redis_server: RedisServer, settings_fields: dict[str, object]
) -> AsyncGenerator[BotHarness]:
    """The bot on a Redis of its own."""
    async with (
        Redis.from_url(own_redis_server.url) as redis,
        BotHarness.start(hub, redis, {**settings_fields, "redis_url": own_redis_server.url}) as bot,
    ):
        yield bot


@pytest.mark.parametrize(
    ("refuse", "take"),
    [pytest.param(*FULL, id="OOM"), pytest.param(*READ_ONLY, id="READONLY")],
)
async def test_a_redis_that_takes_no_writes_in_mid_run(
    fragile: BotHarness,
    refuse: tuple[str, ...],
    take: tuple[str, ...],
    caplog: pytest.LogCaptureFixture,
) -> None:
    repo = fragile.add_repo()
    first, second = await fragile.report_issue(repo), await fragile.report_issue(repo)
    fragile.runner.go_on.clear()
    async with fragile.working():
        await fragile.label(first)
        await fragile.until(lambda: fragile.runner.waiting)
        await fragile.redis.execute_command(*refuse)
        await fragile.label(second)
        unheard = [d for d in fragile.hub.deliveries if d.action == "labeled"][-1]
        assert unheard.status == 503
        before = await refusals(fragile.redis)
        fragile.runner.go_on.set()
        await fragile.until(lambda: more_refusals(fragile.redis, before))
        await fragile.redis.execute_command(*take)
        assert (await fragile.hub.redeliver(unheard)).status == 202
        unheard.status = 202  # it is another delivery, for GitHub
    for issue in (first, second):
        assert (await fragile.run_of(issue)).status is RunStatus.OPENED_PULL_REQUEST
        assert len(fragile.comments_of(issue)) == 1
    assert (len(repo.pulls), len(repo.list_branches())) == (2, 3)
    assert "Traceback" not in caplog.text


async def refusals(redis: Redis) -> int:
    """How many writes Redis has not taken."""
    told = cast("dict[str, dict[str, int]]", await redis.info("errorstats"))
    return sum(told.get(f"errorstat_{kind}", {}).get("count", 0) for kind in ("OOM", "READONLY"))


async def more_refusals(redis: Redis, before: int) -> bool:
    return await refusals(redis) > before + 2
