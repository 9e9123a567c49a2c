"""The repository's own tests, before and after an edit: what passed and does not any more."""

from __future__ import annotations

import asyncio
import hashlib
import re
from collections.abc import Sequence

from pipeline.store import Store
from pipeline.together import together
from pipeline.types import SuiteReport, SuiteRun
from sandbox.base import Execution, Sandbox

OUTPUT_BYTES = 8 * 1024 * 1024
"""Enough for the names of some eighty thousand tests."""

_LINE = 1000
"""Characters of a line that are read: no name is longer, but what a program prints may be."""
_HEADER = "short test summary info"
_PYTEST = re.compile(r"^(PASSED|FAILED|ERROR|XPASS|XFAIL) (\S.*?)\s*$", re.MULTILINE)
_COUNT = re.compile(r"\b(\d+) passed\b")
_UNITTEST = re.compile(
    r"^(\w+ \([\w.<>]+\))(?:\n(?!\w+ \([\w.<>]+\)).*)?? \.\.\. "
    r"(?:.*[^\w])?(ok|FAIL|ERROR|expected failure|unexpected success)$",
    re.MULTILINE,
)
_STARTS = ("", "run", "exec", "--")
"""Words after which a program stands; the first is the command's beginning."""
_ADDRESS = re.compile(r"0x[0-9a-f]{6,}")
_CLOCK = re.compile(r"\d{1,2}:\d\d:\d\d(?:\.\d+)?")


class Suite:
    """The repository's own tests in one sandbox. Every run is saved, so none is done twice."""

    def __init__(
        self, command: Sequence[str], *, sandbox: Sandbox, store: Store, seconds: float
    ) -> None:
        self._command = naming(command)
        self._sandbox = sandbox
        self._store = store
        self._seconds = seconds

    async def compare(self, diff: str) -> SuiteReport | None:
        """The tests without and with `diff`; None when nothing can be told from them unedited.

        Tests that seem broken are run once more: what then passes was flaky, not broken. What does
        not pass again without the edit either, say because its name changes, is left out.
        """
        before, after = await together((self._run("", 0), self._run(diff, 0)))
        if not before.passed and not before.failed:
            return None
        report = SuiteReport(command=self._command, before=before, after=after)
        if not report.broken:
            return report
        again = await self._run(diff, 1)
        passed = tuple(sorted({*after.passed, *again.passed}))
        failed = tuple(sorted({*after.failed, *again.failed} - set(passed)))
        merged = SuiteRun(execution=again.execution, passed=passed, failed=failed)
        report = SuiteReport(command=self._command, before=before, after=merged)
        if not report.broken:
            return report
        twice = await self._run("", 1)
        unsteady = set(report.broken) - set(twice.passed)
        steady = tuple(name for name in before.passed if name not in unsteady)
        kept = before.model_copy(update={"passed": steady})
        return SuiteReport(command=self._command, before=kept, after=merged)

    async def _run(self, diff: str, attempt: int) -> SuiteRun:
        parts = "\0".join([*self._command, diff, str(attempt)])
        digest = hashlib.sha256(parts.encode("utf-8", "surrogatepass")).hexdigest()[:32]
        key = f"suite/{digest}"
        saved = await self._store.load(key, SuiteRun)
        if saved:
            return saved
        execution = await self._sandbox.run_command(
            self._command,
            diffs=(diff,) if diff else (),
            seconds=self._seconds,
            output_bytes=OUTPUT_BYTES,
        )
        run = await asyncio.to_thread(outcome, execution, self._command)
        await self._store.save(key, run)
        return run


def naming(command: Sequence[str]) -> tuple[str, ...]:
    """`command` made to name each test with its outcome, if it runs pytest or unittest.

    People configure `pytest -q`, which names nothing that passes.
    """
    words = tuple(command)
    at = _runner(words)
    if at is None or "-rA" in words:
        return words
    if words[at] == "unittest":
        at += 2 if words[at + 1 : at + 2] == ("discover",) else 1
        return (*words[:at], "-v", *words[at:])
    # The last -r counts, and after a lone -- nothing is an option.
    end = words.index("--", at) if "--" in words[at:] else len(words)
    return (*words[:end], "-rA", *words[end:])


def _runner(words: Sequence[str]) -> int | None:
    """Where the command starts one of the two: as itself, by `-m`, or by `uv run` and its like."""
    for at, word in enumerate(words):
        before = words[at - 1] if at else ""
        if word in ("pytest", "unittest") and before == "-m":
            return at
        if word.rpartition("/")[2] in ("pytest", "py.test") and before in _STARTS:
            return at
    return None


def outcome(execution: Execution, command: Sequence[str]) -> SuiteRun:
    """Which tests passed and failed, by the output of pytest (`-rA`) or unittest (`-v`).

    Output in neither form counts as one test, named after the command, if the program ended by
    itself and `command` is not one of the two runners.
    """
    passed, failed = parse(execution.output)
    known = _runner(command) is not None
    if not passed and not failed and not known and execution.exit_code is not None:
        name = " ".join(command)
        passed, failed = ({name}, set[str]()) if execution.passed else (set[str](), {name})
    return SuiteRun(
        execution=_trimmed(execution),
        passed=tuple(sorted(passed - failed)),
        failed=tuple(sorted(failed)),
    )


def parse(output: str) -> tuple[set[str], set[str]]:
    """The names of passed and of failed tests.

    Both empty when the output names fewer passed tests than it counts: part of it is missing, and
    a name that is not there must not be taken for a test that broke.
    """
    passed: set[str] = set()
    failed: set[str] = set()
    output = "\n".join(line[:_LINE] for line in output.split("\n"))
    _, header, summary = output.rpartition(_HEADER)
    if header:
        rows = [(kind, name) for kind, name in _PYTEST.findall(summary)]
        ok = [name for kind, name in rows if kind == "PASSED"]
        counted = _COUNT.findall(summary)
        if counted and int(counted[-1]) > len(ok):
            return set(), set()
        passed = {_stable(name) for name in ok}
        failed = {_stable(n.split(" - ")[0]) for kind, n in rows if kind in ("FAILED", "ERROR")}
    else:
        for name, result in _UNITTEST.findall(output):
            good = result in ("ok", "expected failure")
            (passed if good else failed).add(_stable(name))
    return passed, failed


def _stable(name: str) -> str:
    """A test's name without addresses of objects and times of day, which differ by the run."""
    return _CLOCK.sub("0:00:00", _ADDRESS.sub("0x", name))


def _trimmed(execution: Execution) -> Execution:
    """With the end of the output alone: the names are kept apart, and checkpoints stay small."""
    return execution.model_copy(update={"output": execution.output[-16_000:]})
