"""`bot.bootstrap` alone puts the parts of the bot together, so tests work with the same parts."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[3]
PARTS = {"SolveIssue", "FollowUpRun", "CommandDispatcher", "Worker", "Sweep", "RunAttempt"}
OWN = {
    ("bot/bootstrap.py", "SolveIssue"),
    ("bot/bootstrap.py", "FollowUpRun"),
    ("bot/bootstrap.py", "CommandDispatcher"),
    ("bot/bootstrap.py", "Worker"),
    ("bot/worker.py", "Sweep"),
    ("bot/worker.py", "RunAttempt"),
    # arq's class of that name.
    ("bot/queue/nudges.py", "Worker"),
    # Tests and measurements of the worker itself.
    ("tests/benchmarks/bot/pickup.py", "Worker"),
    ("tests/e2e/worker/process.py", "Worker"),
    ("tests/e2e/worker/test_worker.py", "Worker"),
}


def built_parts(path: Path) -> Iterator[str]:
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Call):
            name = ast.unparse(node.func).rpartition(".")[2]
            if name in PARTS:
                yield name


def test_nobody_else_builds_the_parts_of_the_bot() -> None:
    found = {
        (path.relative_to(ROOT).as_posix(), name)
        for room in ("bot", "tests")
        for path in (ROOT / room).rglob("*.py")
        for name in built_parts(path)
    }
    assert found == OWN
