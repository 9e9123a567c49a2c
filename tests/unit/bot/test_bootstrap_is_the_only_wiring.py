"""`bot.bootstrap` alone puts the parts of the bot together, so tests work with the same parts."""

import ast
from collections.abc import Iterator
from pathlib import Path

from tests.support.sources import ROOT, list_modules, parse

PARTS = {"SolveIssue", "FollowUpRun", "CommandDispatcher", "Worker", "Sweep", "RunAttempt"}
OWN = {
    ("bot/bootstrap.py", "SolveIssue"),
    ("bot/bootstrap.py", "FollowUpRun"),
    ("bot/bootstrap.py", "CommandDispatcher"),
    ("bot/bootstrap.py", "Worker"),
    ("bot/queue/jobs.py", "Worker"),  # of arq
    ("bot/queue/worker.py", "Sweep"),
    ("bot/queue/worker.py", "RunAttempt"),
    # Tests and measurements of the worker itself.
    ("tests/benchmarks/bot/pickup.py", "Worker"),
    ("tests/benchmarks/bot/poll.py", "Sweep"),
    ("tests/e2e/worker/process.py", "Worker"),
    ("tests/e2e/worker/test_lanes.py", "Worker"),
    ("tests/e2e/worker/test_redis_topologies.py", "Worker"),
    ("tests/e2e/worker/test_worker.py", "Worker"),
}


def built_parts(path: Path) -> Iterator[str]:
    text = path.read_text(encoding="utf-8")
    if not any(f"{part}(" in text for part in PARTS):
        return  # most files: parsing them all takes seconds
    for node in ast.walk(parse(path)):
        if isinstance(node, ast.Call):
            name = getattr(node.func, "attr", getattr(node.func, "id", ""))
            if name in PARTS:
                yield name


def test_nobody_else_builds_the_parts_of_the_bot() -> None:
    found = {
        (path.relative_to(ROOT).as_posix(), name)
        for room in ("bot", "tests")
        for path in list_modules(room)
        for name in built_parts(path)
    }
    assert found == OWN
