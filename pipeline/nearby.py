"""The few tests of the repository that are about the files an edit changes, run early."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Sequence
from pathlib import PurePosixPath

from pipeline.codebase import Codebase
from pipeline.conventions import Conventions, detect, test_texts
from pipeline.selection.suite import Suite
from pipeline.store import Store
from pipeline.types import SuiteReport
from sandbox.base import Sandbox

MOST_FILES = 5
"""Test files run for one edit."""

_CHANGED = re.compile(r"^(?:---|\+\+\+) [ab]/(.*?)\t?$", re.MULTILINE)
_GONE = re.compile(r"^--- a/(.*?)\t?\n\+\+\+ /dev/null$", re.MULTILINE)


class NearbyTests:
    """What an edit does to the tests near it, against the unedited code. Every run is saved."""

    def __init__(
        self, codebase: Codebase, sandbox: Sandbox, store: Store, *, seconds: float
    ) -> None:
        """`seconds` bounds each run; a run that takes longer tells nothing."""
        self._codebase = codebase
        self._sandbox = sandbox
        self._store = store
        self._seconds = seconds
        self._reading = asyncio.Lock()
        self._known: tuple[Conventions, dict[str, str]] | None = None

    async def compare(self, diff: str) -> SuiteReport | None:
        """The near tests without and with `diff`; None when there are none, or nothing is told.

        A run with the edit that does not end counts only if one without it takes less than half
        of the time.
        """
        conventions, texts = await self._tests()
        gone = set(_GONE.findall(diff))
        changed = list(dict.fromkeys(_CHANGED.findall(diff)))
        paths = [path for path in near(changed, texts) if path not in gone]
        if not paths:
            return None
        command = conventions.files_command(paths)
        suite = Suite(command, sandbox=self._sandbox, store=self._store, seconds=self._seconds)
        report = await suite.compare(diff)
        if report is None or report.after.execution.exit_code is not None:
            return report
        return report if report.before.execution.seconds * 2 < self._seconds else None

    async def _tests(self) -> tuple[Conventions, dict[str, str]]:
        async with self._reading:
            if self._known is None:
                self._known = (await detect(self._codebase), await test_texts(self._codebase))
            return self._known


def near(changed: Sequence[str], texts: dict[str, str]) -> list[str]:
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
    return max((_about(test, text, path) for path in changed if path.endswith(".py")), default=0)


def _about(test: str, text: str, path: str) -> int:
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
