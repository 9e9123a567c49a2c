"""Snapshots of the status comment."""

from datetime import UTC, datetime, timedelta

from bot.comments import status
from bot.comments.status import render_queued
from bot.data.progress import Progress
from bot.data.run import QueuePosition
from pipeline.data.types import NoFix
from sandbox.frozen import replace
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
