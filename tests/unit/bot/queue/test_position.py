"""The wait that people are told is a range from what runs took."""

from datetime import timedelta

import pytest

from bot.data.run import now
from bot.queue.position import estimate_waits
from sandbox.frozen import replace
from tests.support.data.publishing import a_run

USUAL = (600.0, 900.0)


@pytest.mark.parametrize(
    ("ages", "slots", "expected"),
    [
        ([], 1, [(0, 0), (600, 900)]),
        ([0], 1, [(600, 900), (1200, 1800)]),
        ([5, 0], 2, [(300, 600), (600, 900)]),
        ([60], 1, [(0, 600), (600, 1500)]),
        ([0], 3, [(0, 0), (0, 0)]),
    ],
)
def test_each_place_waits_for_the_slots_before_it(
    ages: list[float], slots: int, expected: list[tuple[float, float]]
) -> None:
    working = [replace(a_run(), started_at=now() - timedelta(minutes=age)) for age in ages]
    waits = estimate_waits(2, working, slots, USUAL)
    for wait, wanted in zip(waits, expected, strict=True):
        assert wait == pytest.approx(wanted, abs=5)


def test_nothing_is_said_without_a_worker_or_before_three_runs_have_ended() -> None:
    assert estimate_waits(1, [], 0, USUAL) == [None]
    assert estimate_waits(1, [], 1, None) == [None]
