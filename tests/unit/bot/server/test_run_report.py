"""The timeline on the page of a run."""

from datetime import timedelta

import pytest

from bot.data.progress import Progress
from bot.data.run import RunStatus
from bot.server.run_report import build_timeline
from pipeline.data.types import Account, Usage
from tests.support.data.publishing import a_run

BEGUN = a_run().created_at


def account(stage: str, dollars: float) -> Account:
    return Account(stage=stage, model="m", calls=2, usage=Usage(input=10, output=1),
                   dollars=dollars)  # fmt: skip


def test_stages_take_until_the_next_begins_and_what_they_cost_is_theirs() -> None:
    run = a_run(status=RunStatus.NO_FIX, finished_at=BEGUN + timedelta(seconds=100))
    begins = {"environment": 0, "edits": 40, "choice": 90}
    progress = Progress(stages={s: BEGUN + timedelta(seconds=at) for s, at in begins.items()})  # pyright: ignore[reportArgumentType]
    accounts = [account("testing", 0.5), account("editing", 0.25), account("relevance", 1.0),
                account("revising", 2.0)]  # fmt: skip
    rows = build_timeline(run, progress, accounts)
    assert [(row.name, row.seconds, row.dollars, row.calls) for row in rows] == [
        ("environment", 40, 0, 0),
        ("context", None, 1.0, 2),
        ("edits", 50, 0.75, 4),
        ("choice", 10, 0, 0),
        ("reproduction", None, 0, 0),
        ("other", None, 2.0, 2),
    ]
    assert [(row.left, row.width) for row in rows if row.width] == [(0, 40), (40, 50), (90, 10)]
    assert rows[2].usage == Usage(input=20, output=2)


@pytest.mark.parametrize("seconds", [0.0, 1e-6])
def test_a_run_that_has_just_begun_has_a_bar(seconds: float) -> None:
    ended = BEGUN + timedelta(seconds=seconds)
    run = a_run(status=RunStatus.FAILED, finished_at=ended)
    rows = build_timeline(run, Progress(stages={"environment": BEGUN}), [])
    assert rows[0].width == 100


def test_without_times_and_costs_there_is_none() -> None:
    assert build_timeline(a_run(), Progress(), []) == ()
