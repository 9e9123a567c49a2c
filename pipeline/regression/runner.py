"""One run of a repository's tests in the sandbox, saved so that none is done twice."""

from __future__ import annotations

import asyncio
import base64
import hashlib
import json
import math
import zlib
from collections.abc import Iterable
from functools import cache
from importlib import resources

from pydantic import Field

from pipeline.regression.command import TestCommand
from pipeline.regression.console_output import parse_console_output
from pipeline.regression.junit import Outcomes, parse_junit
from pipeline.regression.results import RecordedOutcomes, WrapperOutput
from pipeline.store import SHARED, Store
from pipeline.types import Frozen, SuiteRun, replace
from sandbox.base import Execution, Sandbox
from sandbox.program import NO_ENV, Program, repeat_environment

OUTPUT_BYTES = 32 * 1024 * 1024
"""Room for what was recorded, in the output's second half, behind what was printed."""
GRACE_SECONDS = 20.0
"""What the wrapper may take on top of the command: its own start, and the sending."""
_MOST_OUTPUT = 16_000
_PIECE = 100_000
"""Characters of one argument: Linux takes 128 KiB."""


class RequestedTests(Frozen):
    """Which tests are run; None: all."""

    tests: tuple[str, ...] | None = None
    files: tuple[str, ...] | None = None
    """Files that are collected at all."""
    functions: bool = False
    """Whether to record which functions each test runs."""


class TestRun(Frozen):
    """The tests of one run, one by one where they could be told apart."""

    __test__ = False

    suite: SuiteRun
    files: dict[str, str] = Field(default_factory=dict[str, str])
    """The file of each test, where it is known."""
    seconds: dict[str, float] = Field(default_factory=dict[str, float])
    ran: dict[str, list[int]] = Field(default_factory=dict[str, list[int]])
    """The tests, by their places in `names`, that ran each function (`path:line`)."""
    names: tuple[str, ...] = ()
    start: float = 0.0
    """Seconds until the first test began, as far as known."""
    per_test: bool = True
    """Whether tests were told apart; False: the command counts as one test, by its exit code."""
    ended: bool = True
    """Whether the command came to its end by itself."""


class TestRunner:
    """Runs one command on the code with and without edits."""

    __test__ = False

    def __init__(
        self, command: TestCommand, *, sandbox: Sandbox, store: Store, seconds: float
    ) -> None:
        """`seconds` bounds each run."""
        self.command = command
        self.seconds = seconds
        self._sandbox = sandbox
        self._store = store

    async def run(
        self, diff: str = "", wanted: RequestedTests | None = None, attempt: int = 0
    ) -> TestRun:
        """The tests with `diff`; another `attempt` is another run of the same, with other hashes.

        Raises as `Sandbox.run`.
        """
        wanted = wanted or RequestedTests()
        parts = (*self.command.argv, str(self.seconds), diff, wanted.model_dump_json())
        digest = _digest((*parts, str(attempt)))
        # A further attempt is asked for to learn what this environment does by chance.
        key = f"regression/{digest}" if diff or attempt else f"{SHARED}{digest}"
        saved = await self._store.load(key, TestRun)
        if saved:
            return saved
        # Told apart from what tests print, not from what they forge: they could read any mark.
        mark = f"capuchin-{digest}"
        execution = await self._sandbox.run(
            Program(
                self._argv(wanted, mark),
                diffs=(diff,) if diff else (),
                seconds=self.seconds + GRACE_SECONDS,
                output_bytes=OUTPUT_BYTES,
                env=repeat_environment(attempt) if attempt else NO_ENV,
            )
        )
        run = await asyncio.to_thread(parse_execution, execution, self.command, mark)
        await self._store.save(key, run)
        return run

    def _argv(self, wanted: RequestedTests, mark: str) -> tuple[str, ...]:
        request = {
            "argv": self.command.argv_with_recorder(),
            "mark": mark,
            "seconds": self.seconds,
            "junit": self.command.kind == "other",
            "files": _recorder_files(),
            "wanted": wanted.model_dump(),
        }
        packed = zlib.compress(json.dumps(request).encode(), 9)
        text = base64.b64encode(packed).decode("ascii")
        pieces = (text[at : at + _PIECE] for at in range(0, len(text), _PIECE))
        # Isolated: a file of the repository called `signal.py` is not the wrapper's.
        return ("python", "-I", "-c", _wrapper_source(), *pieces)


def parse_execution(execution: Execution, command: TestCommand, mark: str) -> TestRun:
    """What an execution says of the tests: by our recorder, else by JUnit files, else by what is
    printed, else by the exit code as one test, named after the command.
    """
    sent = WrapperOutput(execution, mark)
    recorded = RecordedOutcomes()
    recorded.read(sent.records)
    found: Outcomes = recorded
    if not found.passed and not found.failed:
        found = parse_junit(sent.documents)
    if not found.passed and not found.failed:
        passed, failed = parse_console_output(sent.execution.output)
        found = Outcomes(passed - failed, failed)
    each = bool(found.passed or found.failed)
    code = sent.execution.exit_code
    if not each and command.kind == "other" and code not in (None, 126, 127):
        name = " ".join(command.argv)[:500]
        found.add(name, good=code == 0, seconds=execution.seconds)
    return TestRun(
        suite=SuiteRun(
            execution=_trim(sent.execution),
            passed=tuple(sorted(found.passed - found.failed)),
            failed=tuple(sorted(found.failed)),
        ),
        files=recorded.files,
        seconds={name: round(seconds, 4) for name, seconds in found.seconds.items()},
        names=tuple(recorded.names),
        ran=recorded.ran,
        start=_start_delay(recorded, sent),
        per_test=each,
        ended=code is not None and sent.end is not None,
    )


def _start_delay(recorded: RecordedOutcomes, sent: WrapperOutput) -> float:
    if sent.end is None or math.isinf(recorded.first):
        return 0.0
    return min(max(recorded.first - sent.end.began, 0.0), sent.execution.seconds)


def _trim(execution: Execution) -> Execution:
    """With the end of the output alone: the names are kept apart, and checkpoints stay small."""
    return replace(execution, output=execution.output[-_MOST_OUTPUT:])


def _digest(parts: Iterable[str]) -> str:
    return hashlib.sha256("\0".join(parts).encode("utf-8", "surrogatepass")).hexdigest()[:32]


@cache
def _recorder_files() -> dict[str, str]:
    """The recorder's files, by name."""
    folder = resources.files("pipeline.regression.guest")
    names = ("__init__", "record", "functions", "pytest_plugin", "unittest_main")
    return {f"{name}.py": (folder / f"{name}.py").read_text("utf-8") for name in names}


@cache
def _wrapper_source() -> str:
    return (resources.files("pipeline.regression.guest") / "wrapper.py").read_text("utf-8")
