"""The few tests of the repository that are about the files an edit changes, run early."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Sequence
from pathlib import PurePosixPath

from pipeline.codebase.commit import Codebase
from pipeline.codebase.conventions import read_test_files
from pipeline.edits.unified_diff import parse_diff
from pipeline.options import Options
from pipeline.regression.command import find_commands
from pipeline.regression.compare import compare_runs
from pipeline.regression.runner import RequestedTests, TestRun, TestRunner
from pipeline.store import Store
from pipeline.types import SuiteReport
from sandbox.base import Sandbox

MOST_FILES = 5
"""Test files run for one edit."""


class NearbyTests:
    """What an edit does to the tests near it, against the unedited code. Every run is saved."""

    def __init__(
        self, codebase: Codebase, sandbox: Sandbox, store: Store, options: Options
    ) -> None:
        """`options.nearby_seconds` bounds each run; a run that takes longer tells nothing."""
        self._codebase = codebase
        self._sandbox = sandbox
        self._store = store
        self._options = options
        self._lock = asyncio.Lock()
        self._known: tuple[list[TestRunner], dict[str, str]] | None = None

    async def compare(self, diff: str) -> SuiteReport | None:
        """The near tests without and with `diff`; None when there are none, or nothing is told.

        They are run by the repository's own test command; one that runs neither pytest nor
        unittest cannot be asked for a part of the tests, so with it nothing is told.

        A run with the edit that does not end counts only if one without it takes less than half
        of the time.
        """
        runners, texts = await self._load_tests()
        touched = parse_diff(diff)
        gone = {file.old for file in touched if file.old != file.new}
        changed = list(dict.fromkeys(p for file in touched for p in (file.old, file.new) if p))
        paths = [path for path in nearby_files(changed, texts) if path not in gone]
        wanted = RequestedTests(files=tuple(paths))
        for runner in runners if paths else ():
            base = await runner.run("", wanted)
            if base.suite.passed or base.suite.failed:
                return await self._build_report(runner, base, diff, wanted)
        return None

    async def _build_report(
        self, runner: TestRunner, base: TestRun, diff: str, wanted: RequestedTests
    ) -> SuiteReport | None:
        after = await runner.run(diff, wanted)
        slow = base.suite.execution.seconds * 2 >= runner.seconds
        if after.suite.execution.exit_code is None and slow:
            return None
        names = base.suite.passed
        return await compare_runs(runner, base, after, diff=diff, names=names, repeats=1)

    async def _load_tests(self) -> tuple[list[TestRunner], dict[str, str]]:
        async with self._lock:
            if self._known is None:
                commands = await find_commands(self._codebase, self._options.test_command)
                seconds = self._options.nearby_seconds
                runners = [
                    TestRunner(command, sandbox=self._sandbox, store=self._store, seconds=seconds)
                    for command in commands
                    if command.kind != "other"
                ]
                self._known = (runners, await read_test_files(self._codebase))
            return self._known


def nearby_files(changed: Sequence[str], texts: dict[str, str]) -> list[str]:
    """The test files about the `changed` paths, nearest first, at most `MOST_FILES`.

    A test is near if it is changed itself, is named after a changed module, or imports one.
    `texts` are the test files' texts by path.
    """
    scores = {path: _nearness(path, text, changed) for path, text in texts.items()}
    found = sorted((path for path in scores if scores[path]), key=lambda p: (-scores[p], p))
    return found[:MOST_FILES]


def _nearness(test: str, text: str, changed: Sequence[str]) -> int:
    if test in changed:
        return 4
    return max((_affinity(test, text, path) for path in changed if path.endswith(".py")), default=0)


def _affinity(test: str, text: str, path: str) -> int:
    parts = list(PurePosixPath(path).with_suffix("").parts)
    if parts[-1] == "__init__":
        parts.pop()
    if not parts:
        return 0
    stem = parts[-1]
    if PurePosixPath(test).stem in (f"test_{stem}", f"{stem}_test"):
        return 3
    dotted = r"\.".join(map(re.escape, parts[-2:]))
    if len(parts) > 1 and re.search(rf"\b{dotted}\b", text):
        return 2
    imported = rf"^[ \t]*(from|import)\b[^\n]*\b{re.escape(stem)}\b"
    return int(bool(re.search(imported, text, re.MULTILINE)))
