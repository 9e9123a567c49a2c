"""Snapshots of the status comment."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path

from bot.comments import status
from bot.comments.status import render_queued
from bot.data.progress import Progress, range_of_durations
from bot.data.run import QueuePosition
from bot.storage.progress_reports import ProgressStore
from pipeline.context.finder import CONTEXT_KEY
from pipeline.data.code_places import Context
from pipeline.data.suite_reports import SuiteRun
from pipeline.data.types import NoFix, Usage
from pipeline.generation.testing import TestingState
from pipeline.models.metering import LEDGER_KEY, Ledger
from pipeline.regression.results import TestRun
from pipeline.state import Phase
from pipeline.store import DirStore, Store
from sandbox.frozen import replace
from sandbox.program import Execution
from tests.support.data.publishing import a_run
from tests.support.snapshots import assert_snapshot

RUN = replace(a_run(), page_url="https://bot.acme.test/runs/r1?key=k")
AT = datetime(2026, 1, 2, 3, 0, tzinfo=UTC)
BEGUN = replace(RUN, started_at=AT)
PROGRESS = Progress(
    doing="Choosing among 3 edits.",
    stages={
        "environment": AT,
        "context": AT + timedelta(seconds=41),
        "edits": AT + timedelta(minutes=2),
        "choice": AT + timedelta(minutes=5),
    },
    expected=(360, 660),
    files=43,
    tests=3,
    edits=3,
    edits_begun=3,
    suite_tests=911,
    suite_run=1822,
    suite_runs=2,
    dollars=0.42,
    at=AT + timedelta(minutes=6),
)


def test_each_stage_of_a_run_reads_well_on_a_phone() -> None:
    stages = (
        render_queued(RUN, QueuePosition(position=3, expected_seconds=(1200, 1800))),
        status.render_started(RUN),
        status.render_progress(BEGUN, PROGRESS),
        status.render_no_fix(RUN, NoFix(reason="no edit", details=("`total()` subtracts.",))),
    )
    assert_snapshot("status_comments", "\n----\n".join(stages))


async def test_counts_follow_from_what_is_saved_and_found(tmp_path: Path) -> None:
    told: list[Progress] = []
    inner: Store = DirStore(tmp_path)
    watched = ProgressStore(inner, told.append)
    watched.report("The scout has read 43 of 1,043 files.")
    done = TestingState(pending="", phase=Phase.APPROVED)
    for key, state in (
        ("testing/0", done),
        ("testing/0", done),
        (CONTEXT_KEY, Context(files=())),
        ("testing/1", TestingState(pending="")),
        ("editing/0", done),
        ("editing/1", TestingState(pending="")),
    ):
        await watched.save(key, state)
    await watched.save(LEDGER_KEY, Ledger().with_call("testing/0", "m", Usage(), 0.25))
    last = told[-1]
    assert (last.files, last.tests, last.edits, last.edits_begun) == (43, 1, 1, 2)
    assert (last.doing, last.dollars) == ("The scout has read 43 of 1,043 files.", 0.25)
    assert list(last.stages) == ["environment", "context", "edits"]
    # The next worker goes on with what this one reported.
    again = ProgressStore(inner, told.append, last)
    await again.load("testing/0", TestingState)
    assert (told[-1].files, told[-1].tests, told[-1].stages) == (43, 1, last.stages)


async def test_the_tests_of_the_repository_are_counted_once_the_choice_has_begun(
    tmp_path: Path,
) -> None:
    told: list[Progress] = []
    watched = ProgressStore(DirStore(tmp_path), told.append)
    ran = Execution(exit_code=0, output="", seconds=1)
    run = TestRun(suite=SuiteRun(execution=ran, passed=("a", "b"), failed=("c",)))
    await watched.save("regression/near", run)
    assert told == []
    await watched.save("question/evidence", NoFix(reason="no edit"))
    await watched.save("regression/base/x", run)
    await watched.save("regression/one", run)
    await watched.save("regression/other", run)
    last = told[-1]
    assert (last.suite_tests, last.suite_run, last.suite_runs) == (3, 6, 2)


def test_a_range_is_expected_once_three_runs_have_ended() -> None:
    assert range_of_durations([60, 120]) is None
    assert range_of_durations([60, 120, 240, 300, 6000]) == (120, 300)
