"""Lets the session's Redis and a receiver of webhooks answer late.

In use, both are given up after seconds: GitHub waits ten for an answer. A busy machine of CI stands
still for longer, and a test that is not about that would fail. Tests of a Redis that is frozen have
one of their own, for which the limits stay.
"""

from typing import Final

import pytest

from bot.storage.storage import Storage
from capuchin_demo.hub import webhooks
from tests.support.redis import RedisServer

SECONDS: Final = 120.0


@pytest.fixture(autouse=True)
def wait_patiently(monkeypatch: pytest.MonkeyPatch, redis_server: RedisServer) -> None:
    open_storage = Storage.open

    def open_patiently(url: str, prefix: str, *, timeout: float) -> Storage:
        seconds = max(timeout, SECONDS) if url == redis_server.url else timeout
        return open_storage(url, prefix, timeout=seconds)

    monkeypatch.setattr(Storage, "open", open_patiently)
    monkeypatch.setattr(webhooks, "TIMEOUT_S", SECONDS)
