"""Snapshots of the status comment."""

from __future__ import annotations

from pathlib import Path

from bot.comments import status
from bot.storage.progress import Progress, ProgressStore
from bot.types import QueuePosition, replace
from pipeline.models.wrappers.metered import LEDGER_KEY, Ledger
from pipeline.store import DirStore, Store
from pipeline.types import NoFix, Usage
from tests.support.data.publishing import a_run
from tests.support.snapshots import assert_snapshot

RUN = replace(a_run(), page_url="https://bot.acme.test/runs/r1?key=k")
PROGRESS = Progress(doing="Writing 10 tests and edits.", files=12, tests=1, edits=3, dollars=0.42)


def test_each_stage_of_a_run_reads_well_on_a_phone() -> None:
    stages = (
        status.render_queued(RUN, QueuePosition(position=3, expected_seconds=1500)),
        status.render_started(RUN),
        status.render_progress(RUN, PROGRESS),
        status.render_no_fix(RUN, NoFix(reason="no edit", details=("`total()` subtracts.",))),
    )
    assert_snapshot("status_comments", "\n----\n".join(stages))


async def test_counts_follow_from_what_is_saved_and_found(tmp_path: Path) -> None:
    told: list[Progress] = []
    inner: Store = DirStore(tmp_path)
    watched = ProgressStore(inner, told.append)
    watched.report("Looking through 2 files.")
    answer = NoFix(reason="no edit")
    for key in (
        "context/relevance/a",
        "context/relevance/b",
        "testing/0",
        "testing/0",
        "editing/1",
    ):
        await watched.save(key, answer)
    await watched.save(LEDGER_KEY, Ledger().with_call("testing/0", "m", Usage(), 0.25))
    last = told[-1]
    assert (last.doing, last.files, last.tests, last.edits, last.dollars) == (
        "Looking through 2 files.",
        2,
        1,
        1,
        0.25,
    )
    again = ProgressStore(inner, told.append)
    await again.load("context/relevance/a", NoFix)
    await again.load("testing/7", NoFix)
    assert (told[-1].files, told[-1].tests) == (1, 0)
