"""The time of one run: its stages share it, and a chosen edit is delivered when it ends."""

from __future__ import annotations

import math
from typing import Any

import pytest
from pydantic import BaseModel

from pipeline.data.types import NoFix, Selection
from pipeline.models.wrappers import CLOCK_KEY, RunClock, WorkTime
from pipeline.store import DirStore
from tests.support.data.solver_shop import APPROVE, GOOD_EDIT, ISSUE, TEST_FILE, Shop, simple
from tests.support.fakes import Killed, ScriptedModel

MINUTES = 10


class StoreKilledAtChoice(DirStore):
    """Kills the run when its samples are done and nothing is chosen yet."""

    async def save(self, key: str, value: BaseModel) -> None:
        if key.startswith("question/"):
            raise Killed
        await super().save(key, value)


async def resumed_at(
    shop: Shop, share: float, **options: float
) -> tuple[Selection | NoFix, ScriptedModel]:
    """A run whose samples are done, when `share` of its time is over."""
    folder = shop.folder / "timed"
    settings: Any = {"minutes": MINUTES, **options}
    first = ScriptedModel(simple(GOOD_EDIT, APPROVE))
    killed = shop.solver(first, store=StoreKilledAtChoice(folder), **settings)
    with pytest.raises(Killed):
        await killed.solve(ISSUE)
    store = DirStore(folder)
    await store.save(CLOCK_KEY, WorkTime(seconds=share * MINUTES * 60))
    model = ScriptedModel({"reproduction": [TEST_FILE]})
    return await shop.solver(model, store=store, **settings).solve(ISSUE), model


async def test_the_suite_leaves_the_reproduction_test_its_time(shop: Shop) -> None:
    result, model = await resumed_at(shop, 0.9)
    assert isinstance(result, Selection)
    assert [call for call, _ in model.asked] == ["reproduction"]
    suite = result.evidence.suite
    assert suite is not None
    assert suite.broken == ()
    assert suite.chosen.startswith("those in the test file nearest to the edit; ")
    assert "time for this run" in suite.chosen
    assert result.evidence.reproduction.rung == "new file"


async def test_when_the_time_is_over_the_chosen_edit_is_still_delivered(shop: Shop) -> None:
    result, model = await resumed_at(shop, 1.1, nearby_seconds=0)
    assert isinstance(result, Selection)
    assert model.asked == []
    proof = result.evidence
    assert proof.suite is None
    assert "time" in proof.suite_problem
    assert proof.reproduction.rung == "wrapped script"
    assert "10 minutes" in proof.cut_short


async def test_without_an_edit_it_is_an_honest_no_that_more_time_continues(shop: Shop) -> None:
    store = DirStore(shop.folder / "late")
    await store.save(CLOCK_KEY, WorkTime(seconds=0.7 * MINUTES * 60))
    answers = simple(GOOD_EDIT, APPROVE)
    late = shop.solver(ScriptedModel(answers), store=store, minutes=MINUTES)
    no = await late.solve(ISSUE)
    assert isinstance(no, NoFix)
    assert (no.reason, no.is_final) == ("out of time", False)
    again = shop.solver(ScriptedModel(answers), store=store, minutes=2 * MINUTES)
    assert isinstance(await again.solve(ISSUE), Selection)


async def test_the_time_between_two_starts_does_not_count(shop: Shop) -> None:
    store, ticks = DirStore(shop.folder / "clock"), iter([0.0, 90.0])
    first = RunClock(MINUTES, now=lambda: next(ticks))
    await first.save(store)
    second = await RunClock.open(store, MINUTES)
    assert second.seconds_left("reproduction") == pytest.approx(MINUTES * 60 - 90, abs=5)
    assert (
        second.seconds_left("samples")
        < second.seconds_left("choice")
        < second.seconds_left("reproduction")
    )
    assert RunClock(0).seconds_left("samples") == math.inf
