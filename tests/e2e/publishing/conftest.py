from __future__ import annotations

from pathlib import Path

import pytest
from redis.asyncio import Redis

from bot.localhub import LocalHub
from tests.e2e.single_run_harness import Office


@pytest.fixture
def office(hub: LocalHub, redis: Redis, redis_prefix: str, tmp_path: Path) -> Office:
    return Office(hub, redis, redis_prefix, tmp_path / "data")
