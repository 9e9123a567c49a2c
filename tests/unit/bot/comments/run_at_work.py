"""A run at work that texts tell of, and how far it is."""

from datetime import timedelta
from typing import Final

from bot.data.progress import Progress
from bot.data.run import RunStatus, now
from pipeline.data.progress import Count
from pipeline.data.types import CommitSha
from sandbox.frozen import replace
from tests.support.data.publishing import a_run

BEGAN: Final = now() - timedelta(minutes=4)
WORKING: Final = replace(
    a_run(),
    status=RunStatus.RUNNING,
    started_at=BEGAN,
    starts=2,
    base_commit=CommitSha("1" * 40),
    dollars=0.25,
    page_url="https://bot.example/runs/r1",
)
PROGRESS: Final = Progress(
    doing="Running this repository's tests without an edit: 156 of 484 tests begun.",
    counted=Count(156, 484, "tests"),
    environment="Python 3.12: 10 of 10 tests pass.",
    stages={
        name: BEGAN + timedelta(seconds=seconds)
        for name, seconds in (("environment", 0), ("context", 61), ("edits", 90), ("choice", 120))
    },  # pyright: ignore[reportArgumentType] - names of stages
    expected=(6000, 9000),
    costs=(0.2, 0.4),
    ceiling=10,
    files=43,
    tests=3,
    edits=2,
    edits_begun=3,
    heard=1,
    suite_tests=911,
    suite_run=5,
    suite_runs=2,
    dollars=0.25,
    at=BEGAN + timedelta(minutes=4),
)
