"""Concurrency that follows the server."""

from __future__ import annotations

import asyncio

import pytest

from pipeline.concurrency import gather_all
from pipeline.data.types import Usage
from pipeline.models.base import Model, ModelProfile, ModelRequest, ModelUnavailable, Price, Reply
from pipeline.models.wrappers import AdaptiveModel, ConcurrencyWindow


class BusyModel(Model):
    """Serves `capacity` calls at once, each in a few turns of the loop, and refuses the others."""

    def __init__(self, capacity: int) -> None:
        self.capacity = capacity
        self.running = self.most = self.refused = 0

    @property
    def profile(self) -> ModelProfile:
        return ModelProfile(
            provider="openai", name="m", window=1, max_output=1, sampling=True, price=Price()
        )

    async def complete(self, request: ModelRequest) -> Reply:
        if self.running >= self.capacity:
            self.refused += 1
            raise ModelUnavailable("busy")
        self.running += 1
        self.most = max(self.most, self.running)
        for _ in range(5):
            await asyncio.sleep(0)
        self.running -= 1
        return Reply(text="x", usage=Usage(), model="m")


async def asked(model: AdaptiveModel, count: int) -> list[Reply]:
    return await gather_all(
        model.complete(ModelRequest("", (), call="relevance")) for _ in range(count)
    )


async def test_a_server_that_keeps_up_is_filled() -> None:
    server, window = BusyModel(100), ConcurrencyWindow(32)
    assert len(await asked(AdaptiveModel(server, window, waits=(0,) * 3), 400)) == 400
    assert server.most == 32
    assert server.refused == 0


async def test_an_overloaded_server_gets_less_and_no_call_is_lost() -> None:
    server, window = BusyModel(6), ConcurrencyWindow(64)
    assert len(await asked(AdaptiveModel(server, window, waits=(0,) * 3), 600)) == 600
    assert server.most == 6
    assert window.size < 13
    assert server.refused < 200


async def test_a_server_that_serves_nobody_is_away() -> None:
    server, window = BusyModel(0), ConcurrencyWindow(8)
    with pytest.raises(ModelUnavailable):
        await asked(AdaptiveModel(server, window, waits=(0, 0)), 20)
    assert window.size == 1


async def test_the_window_never_leaves_its_bounds() -> None:
    window = ConcurrencyWindow(3, start=10)
    assert window.size == 3
    async with window.slot() as number:
        for _ in range(9):
            window.record_success()
        assert window.size == 3
        window.record_overload(number)
        window.record_overload(number)
        assert window.size == 1.5
