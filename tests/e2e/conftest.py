from __future__ import annotations

from collections.abc import AsyncGenerator, Callable
from contextlib import AbstractAsyncContextManager
from pathlib import Path

import pytest
from redis.asyncio import Redis

from bot.localhub import LocalHub
from bot.recorded.recording import Recording
from tests.e2e import shop
from tests.e2e.harness import BotHarness, host_certificates
from tests.support.docker import daemon
from tests.support.redis import RedisServer

__all__ = ["bot", "daemon", "standing"]

Standing = Callable[..., AbstractAsyncContextManager[BotHarness]]


@pytest.fixture
def standing(
    hub: LocalHub, redis: Redis, redis_server: RedisServer, redis_prefix: str, tmp_path: Path
) -> Standing:
    """The bot, to be put up with a recording and settings of the test's own."""

    def stand(recording: Recording | None = None, **fields: object) -> object:
        certificates = host_certificates()
        given = {"build_ca_bundle": certificates} if certificates else {}
        return BotHarness.standing(
            hub,
            redis,
            recording or shop.answers(),
            redis_url=redis_server.url,
            redis_prefix=redis_prefix,
            data_dir=str(tmp_path / "data"),
            **given,
            **fields,
        )

    return stand  # pyright: ignore[reportReturnType] - narrowed by the alias


@pytest.fixture
async def bot(standing: Standing) -> AsyncGenerator[BotHarness]:
    """The bot with recorded answers that find the bug of `tests/e2e/shop.py`."""
    async with standing() as bot:
        yield bot
