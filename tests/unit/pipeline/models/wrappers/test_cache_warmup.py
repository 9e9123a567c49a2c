from __future__ import annotations

import asyncio

import pytest

from pipeline.concurrency import gather_bounded
from pipeline.data.types import Usage
from pipeline.models.base import Model, ModelProfile, ModelRequest, ModelUnavailable, Price, Reply
from pipeline.models.wrappers import CacheWarmup


class SlowModel(Model):
    """Answers when it is let."""

    def __init__(self) -> None:
        self.go = asyncio.Event()
        self.asked: list[str] = []
        self.fails = False

    @property
    def profile(self) -> ModelProfile:
        return ModelProfile(
            provider="openai", name="m", window=1, max_output=1, sampling=True, price=Price()
        )

    async def complete(self, request: ModelRequest) -> Reply:
        self.asked.append(request.call)
        await self.go.wait()
        if self.fails and len(self.asked) == 1:
            raise ModelUnavailable("away")
        return Reply(text="x", usage=Usage(), model="m")


@pytest.mark.parametrize("fails", [False, True])
async def test_the_first_question_is_done_before_the_rest_are_asked(fails: bool) -> None:
    model = SlowModel()
    model.fails = fails
    started = CacheWarmup(model)
    calls = [
        asyncio.create_task(started.complete(ModelRequest("", (), call=f"editing/{n}")))
        for n in range(3)
    ]
    for _ in range(10):
        await asyncio.sleep(0)
    assert model.asked == ["editing/0"]
    model.go.set()
    results = [await asyncio.wait({call}) for call in calls]
    assert len(results) == 3
    assert sorted(model.asked) == ["editing/0", "editing/1", "editing/2"]
    assert isinstance(calls[0].exception(), ModelUnavailable) is fails
    assert calls[2].result().text == "x"


async def test_results_come_in_the_order_of_the_jobs() -> None:
    async def job(n: int) -> int:
        await asyncio.sleep(0)
        return n

    assert await gather_bounded(2, (job(n) for n in range(5))) == [0, 1, 2, 3, 4]


async def test_a_failure_stops_what_runs_and_what_waits() -> None:
    ran: list[int] = []

    async def job(n: int) -> None:
        ran.append(n)
        if n == 1:
            raise ValueError(n)
        await asyncio.Event().wait()

    with pytest.raises(ValueError, match="1"):
        await gather_bounded(2, (job(n) for n in range(5)))
    assert ran[:2] == [0, 1]
    assert 4 not in ran
