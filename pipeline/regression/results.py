"""Parses the wrapper's output from inside the sandbox, as untrusted data."""

import base64
import binascii
import contextlib
import json
import math
import re
import zlib
from collections.abc import Collection, Iterator, Sequence
from contextlib import suppress
from typing import Any, Literal, cast

from pydantic import BaseModel, Field, ValidationError

from pipeline.data.suite_reports import CutShort, SuiteRun
from pipeline.languages.readers import MOST_TESTS, Outcomes, to_seconds
from pipeline.languages.test_names import stable_name
from sandbox.frozen import Frozen, replace
from sandbox.program import Ending, Execution

MOST_DOCUMENTS = 32 * 1024 * 1024
"""Bytes of all JUnit documents together, unpacked."""
_KINDS = ("start", "phase", "title", "raised", "network", "collect", "collected", "function", "ran")
_ROWS = tuple(f'["{kind}"'.encode() for kind in _KINDS)
_LONGEST_LINE = 16 * 1024 * 1024


class CommandEnd(BaseModel):
    """The end of the command as the wrapper reports it."""

    code: int | None = Field(default=None, ge=0, le=255)
    signal: int | None = None
    timeout: bool = False
    limit: Literal["", "processor time", "idle", "wall time", "run time"] = ""
    began: float = Field(default=0.0, ge=0, le=1e11)
    """In seconds since 1970, by the sandbox's clock."""


class RecordedOutcomes(Outcomes):
    """The results of one run, test by test."""

    def __init__(self) -> None:
        super().__init__()
        self.files: dict[str, str] = {}
        """By test that began: its file."""
        self.names: list[str] = []
        self.ran: dict[str, list[int]] = {}
        """By function (`path:line`): the tests that ran it, as positions in `names`."""
        self._places: dict[tuple[int, int], str] = {}
        self._good: dict[str, bool] = {}
        self.first = math.inf
        """When the first test began, by the sandbox's clock."""
        self.titles: dict[str, str] = {}
        """The first line of a test's docstring, which unittest prints in place of its name."""
        self.raised: dict[str, str] = {}
        """By test: the class of the last exception that ended one of its phases."""
        self.offline: set[str] = set()
        """Tests that failed for lack of a network or a service."""
        self.selected = 0
        """How many tests the runner said it would run; 0 if it did not."""
        self.unfinished: dict[str, float] = {}
        """By test that ran when the time was over: the seconds that it had run."""
        self._began: dict[str, float] = {}
        self._left = 4_000_000  # pairs of a test and a function it runs

    def read(self, data: bytes, over_at: float | None = None) -> None:
        """Read the recorder's lines; ignore any other form.

        `over_at`: when the time was over, by the sandbox's clock; None if the run ended otherwise.
        """
        for line in data.split(b"\n"):
            row = _parse_row(line) if line.startswith(_ROWS) else None
            if row is not None and len(self._good) < MOST_TESTS:
                self._add_row(row[0], row[1:])
        for name, good in self._good.items():
            if name not in self.failed and name not in self.skipped:
                self._judge(name, good, over_at)
        self.offline &= self.failed
        self.errors &= self.failed
        self.skipped -= self.failed

    def _judge(self, name: str, good: bool, over_at: float | None) -> None:
        if good:
            self.passed.add(name)
        elif over_at is not None:
            self.unfinished[name] = max(0.0, over_at - self._began.get(name, over_at))
        else:  # a test that began and did not end crashed the interpreter
            self.failed.add(name)
            self.errors.add(name)

    def _add_row(self, kind: str, values: list[Any]) -> None:
        match kind, values:
            case "start", [str(name), str(path), (float() | int()) as clock]:
                self.files[stable_name(name)] = _printable(path)
                began = self._began[stable_name(name)] = _to_time(clock)
                self.first = min(self.first, began)
                self._good.setdefault(stable_name(name), False)
            case "phase", [str(name), str(when), str(outcome), (float() | int()) as seconds]:
                self._add_phase(stable_name(name), when, outcome, to_seconds(seconds))
            case (("title" | "raised" | "network" | "collect"), [str(name), *rest]):
                self._add_note(kind, stable_name(name), rest)
            case "collected", [int(number)]:
                self.selected = max(self.selected, min(number, MOST_TESTS))
            case "function", [int(process), int(number), str(path), int(line)]:
                if len(self._places) < 500_000:
                    self._places[process, number] = _printable(f"{path}:{line}")
            case "ran", [str(name), int(process), numbers] if isinstance(numbers, list):
                self._add_functions(stable_name(name), process, cast(list[Any], numbers))
            case _:
                return

    def _add_note(self, kind: str, name: str, rest: list[Any]) -> None:
        if kind == "title" and rest and isinstance(rest[0], str):
            self.titles[name] = stable_name(rest[0])
        elif kind == "raised" and rest and isinstance(rest[0], str):
            self.raised[name] = stable_name(rest[0])[:100]
        elif kind == "network":
            self.offline.add(name)
        elif kind == "collect":
            self.failed.add(name)
            self.errors.add(name)

    def _add_phase(self, name: str, when: str, outcome: str, seconds: float) -> None:
        self.seconds[name] = self.seconds.get(name, 0.0) + seconds
        if outcome == "rerun":  # pytest-rerunfailures: this attempt does not count
            self.failed.discard(name)
            self.errors.discard(name)
            self._good[name] = False
        elif outcome in ("failed", "error"):
            self.failed.add(name)
            if outcome == "error" or when != "call":
                self.errors.add(name)
        elif outcome in ("skipped", "xfail"):
            self.skipped.add(name)
        elif when == "call":
            self._good[name] = True

    def _add_functions(self, name: str, process: int, numbers: list[Any]) -> None:
        self._left -= len(numbers)
        if self._left < 0:
            return
        self.names.append(name)
        for number in numbers:
            place = self._places.get((process, number)) if isinstance(number, int) else None
            if place:
                self.ran.setdefault(place, []).append(len(self.names) - 1)


class TestRun(Frozen):
    """The results of one run, by test if tests could be distinguished."""

    __test__ = False

    suite: SuiteRun
    files: dict[str, str] = Field(default_factory=dict[str, str])
    """By test: its file, if known."""
    seconds: dict[str, float] = Field(default_factory=dict[str, float])
    ran: dict[str, list[int]] = Field(default_factory=dict[str, list[int]])
    """By function (`path:line`): the tests that ran it, as positions in `names`."""
    names: tuple[str, ...] = ()
    start: float = 0.0
    """Processor seconds before the first test began, if known."""
    per_test: bool = True
    """Whether tests were distinguished; False: the command counts as one test, by its exit code."""
    unfinished: dict[str, float] = Field(default_factory=dict[str, float])
    """By test that ran when the time was over, and has no result: the seconds that it had run."""
    ended: bool = True
    """Whether the command ended by itself."""
    titles: dict[str, str] = Field(default_factory=dict[str, str])
    """By test: the first line of the docstring, if the runner prints that as its name."""
    problem: str = ""
    """Why the run has no result, as a sentence; it quotes the output: untrusted."""

    def is_below(self, seconds: float) -> bool:
        """Whether a limit of `seconds`, also of one that does nothing for so long, changes nothing
        in this run."""
        execution = self.suite.execution
        used = execution.cpu_seconds
        longest = math.inf if used is None else max(used, execution.seconds)
        return self.ended and not execution.limit and longest < seconds


def split_by_file(run: TestRun, files: Sequence[str]) -> dict[str, TestRun]:
    """The part of `run` that each of `files` is of; empty where it cannot be parted."""
    suite = run.suite
    told = {*suite.passed, *suite.failed, *suite.offline, *suite.skipped}
    whole = run.ended and not (run.problem or suite.execution.limit)
    if not whole or not told or any(run.files.get(name) not in files for name in told):
        return {}

    def cut(path: str) -> TestRun:
        mine = {name for name in told if run.files[name] == path}
        seconds = {name: run.seconds[name] for name in mine if name in run.seconds}
        used = run.start + sum(seconds.values())
        busy = used * _find_busy(suite.execution)
        return TestRun(
            suite=SuiteRun(
                execution=replace(suite.execution, output="", seconds=used, cpu_seconds=busy),
                passed=_keep(suite.passed, mine),
                failed=_keep(suite.failed, mine),
                offline=_keep(suite.offline, mine),
                errors=_keep(suite.errors, mine),
                skipped=_keep(suite.skipped, mine),
                raised={name: kind for name, kind in suite.raised.items() if name in mine},
            ),
            files=dict.fromkeys(sorted(mine), path),
            seconds=seconds,
            start=run.start,
            titles={name: title for name, title in run.titles.items() if name in mine},
        )

    return {path: cut(path) for path in files}


def _find_busy(*executions: Execution) -> float:
    """The share of their time that they used a processor."""
    whole = sum(one.seconds for one in executions)
    return sum(one.own_seconds for one in executions) / whole if whole else 1.0


def _keep(names: Sequence[str], mine: Collection[str]) -> tuple[str, ...]:
    return tuple(name for name in names if name in mine)


def join_files(runs: Sequence[TestRun]) -> TestRun:
    """One run of the tests of files that were parted by `split_by_file`."""
    suites = [run.suite for run in runs]
    start = max(run.start for run in runs)
    used = start + sum(seconds for run in runs for seconds in run.seconds.values())
    failed = any(suite.failed or suite.offline for suite in suites)
    first = suites[0].execution
    busy = used * _find_busy(*(suite.execution for suite in suites))
    return TestRun(
        suite=SuiteRun(
            execution=replace(first, exit_code=int(failed), seconds=used, cpu_seconds=busy),
            passed=tuple(sorted(name for suite in suites for name in suite.passed)),
            failed=tuple(sorted(name for suite in suites for name in suite.failed)),
            offline=tuple(sorted(name for suite in suites for name in suite.offline)),
            errors=tuple(sorted(name for suite in suites for name in suite.errors)),
            skipped=tuple(sorted(name for suite in suites for name in suite.skipped)),
            raised={name: kind for suite in suites for name, kind in suite.raised.items()},
        ),
        files={name: path for run in runs for name, path in run.files.items()},
        seconds={name: one for run in runs for name, one in run.seconds.items()},
        start=start,
        titles={name: title for run in runs for name, title in run.titles.items()},
    )


class WrapperOutput:
    """An execution's output, split into the command's output and the records."""

    def __init__(self, execution: Execution, mark: str) -> None:
        pattern = re.compile(rf"^{re.escape(mark)} (\w+) ([A-Za-z0-9+/=]*)$", re.MULTILINE)
        found = list(pattern.finditer(execution.output))
        self.records = b""
        self.documents: list[bytes] = []
        self.places: list[str] = []
        """The path of each document from the checkout, or its whole one."""
        self.end: CommandEnd | None = None
        self.forged = False
        """Whether other programs than the wrapper printed results, or ended it."""
        left = MOST_DOCUMENTS
        for match in found:
            if match[1] == "records":
                self.records = unpack(match[2], 64 * 1024 * 1024)
            elif match[1] == "junit" and (document := unpack(match[2], left)):
                place, _, content = document.partition(b"\n")
                self.places.append(place.decode("utf-8", "replace"))
                self.documents.append(content)
                left -= len(document)
            elif match[1] == "end":
                with suppress(ValidationError):
                    self.end = CommandEnd.model_validate_json(unpack(match[2], 10_000))
        if found and not self._is_only_ours([match[1] for match in found], execution):
            self.forged, self.records, self.end = True, b"", None
            self.documents, self.places = [], []
        printed = execution.output[: found[0].start()] if found else execution.output
        printed = re.sub(rf"\n{re.escape(mark)}:\d+/\d+\n", "", printed)
        self.execution = self._correct_ending(replace(execution, output=printed.rstrip("\n")))

    @property
    def over_at(self) -> float | None:
        """When a limit ended the command, by the sandbox's clock; None if it ended otherwise.

        A command that did nothing until then hangs: the test that ran failed.
        """
        if self.end is None or not self.end.timeout or self.end.limit == "idle":
            return None
        return self.end.began + self.execution.seconds

    def measure_start(self, first: float) -> float:
        """Processor seconds before `first`, when a test began, by its share of the elapsed time."""
        if self.end is None or math.isinf(first):
            return 0.0
        passed = min(max(first - self.end.began, 0.0), self.execution.seconds)
        cpu, wall = self.execution.cpu_seconds, self.execution.seconds
        return passed if cpu is None or not wall else passed * min(1.0, cpu / wall)

    def find_cut(self, found: Outcomes, selected: int) -> CutShort | None:
        """How far the command came, if a limit ended it before all `selected` tests had run."""
        ran = len(found.passed | found.failed | found.skipped)
        if self.execution.ending is not Ending.TIMEOUT or ran == selected > 0:
            return None
        skipped = len(found.skipped - found.passed - found.failed)
        return CutShort(ran=ran, skipped=skipped, selected=selected if selected > ran else 0)

    def _is_only_ours(self, kinds: Sequence[str], execution: Execution) -> bool:
        """Whether the sections are those of one wrapper, which then ended as its own last one
        says. The tests can read the mark and stop the wrapper, but not make it end so."""
        if any(kinds.count(kind) > 1 for kind in ("records", "end")):
            return False
        if execution.exit_code is None:
            return execution.ending is not Ending.KILLED  # else a limit cut it short
        if "records" not in kinds or "end" not in kinds:
            return False
        code = self.end.code if self.end else execution.exit_code
        return execution.exit_code == (128 if code is None else code)

    def _correct_ending(self, execution: Execution) -> Execution:
        if self.end is None:
            return execution
        update: dict[str, Any] = {}
        if self.end.timeout:
            update = {"exit_code": None, "ending": Ending.TIMEOUT, "limit": self.end.limit}
        elif self.end.signal is not None:
            update = {"exit_code": None, "ending": Ending.KILLED}
        return replace(execution, **update)


def unpack(text: str, most: int) -> bytes:
    """A section's bytes; empty if it is broken or unpacks to more than `most`."""
    try:
        packed = base64.b64decode(text, validate=True)
        reader = zlib.decompressobj()
        data = reader.decompress(packed, max(most, 1))
    except (binascii.Error, zlib.error):
        return b""
    return data if reader.eof else b""


def _to_time(value: float) -> float:
    """Infinite for an invalid number, such as NaN or an integer of 400 digits."""
    with contextlib.suppress(OverflowError):
        if math.isfinite(value):
            return float(value)
    return math.inf


def _printable(path: str) -> str:
    """The path in a form that can be saved: surrogates have no bytes in UTF-8."""
    return path.encode("utf-8", "backslashreplace").decode("utf-8")


def _parse_row(line: bytes) -> list[Any] | None:
    if len(line) > _LONGEST_LINE:
        return None
    try:
        row: Any = json.loads(line)
    except (ValueError, RecursionError):
        return None
    return list(_strings(cast(list[Any], row))) if isinstance(row, list) and row else None


def _strings(row: list[Any]) -> Iterator[Any]:
    """The values, the first converted to a string."""
    yield str(row[0])[:20]
    yield from row[1:]
