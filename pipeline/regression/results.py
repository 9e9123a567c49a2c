"""What the wrapper sent from inside the sandbox, read as the word of a stranger."""

from __future__ import annotations

import base64
import binascii
import json
import math
import re
import zlib
from collections.abc import Iterator
from typing import Any, cast

from pydantic import BaseModel, Field, ValidationError

from pipeline.regression.guest.record import stable_name
from pipeline.regression.junit import MOST_TESTS, Outcomes
from pipeline.types import replace
from sandbox.base import Ending, Execution

MOST_SECTION = 64 * 1024 * 1024
"""Bytes of one section, unpacked."""
MOST_DOCUMENTS = 32 * 1024 * 1024
"""Bytes of all JUnit documents together, unpacked."""
MOST_FUNCTIONS = 500_000
MOST_CALLS = 4_000_000
"""Pairs of a test and a function that it ran."""


class CommandEnd(BaseModel):
    """How the command ended, by the wrapper's word."""

    code: int | None = Field(default=None, ge=0, le=255)
    signal: int | None = None
    timeout: bool = False
    began: float = Field(default=0.0, ge=0, le=1e11)
    """By the clock inside, in seconds since 1970."""


class RecordedOutcomes(Outcomes):
    """The results of one run, test by test."""

    def __init__(self) -> None:
        super().__init__()
        self.files: dict[str, str] = {}
        """The file of each test that began."""
        self.names: list[str] = []
        self.ran: dict[str, list[int]] = {}
        """The tests, by their places in `names`, that ran each function (`path:line`)."""
        self._places: dict[tuple[int, int], str] = {}
        self._good: dict[str, bool] = {}
        self.first = math.inf
        """When the first test began, by the clock inside."""
        self._skipped: set[str] = set()
        self._left = MOST_CALLS

    def read(self, data: bytes) -> None:
        """Take in the recorder's lines; what has another form is passed over."""
        for line in data.split(b"\n"):
            row = _parse_row(line)
            if row is not None and len(self._good) < MOST_TESTS:
                self._add_row(row[0], row[1:])
        for name, good in self._good.items():
            if name not in self.failed and name not in self._skipped:
                # One that began and did not end was cut off, or brought the interpreter down.
                (self.passed if good else self.failed).add(name)

    def _add_row(self, kind: str, values: list[Any]) -> None:
        match kind, values:
            case "start", [str(name), str(path), (float() | int()) as clock]:
                self.files[stable_name(name)] = path
                self.first = min(self.first, float(clock))
                self._good.setdefault(stable_name(name), False)
            case "phase", [str(name), str(when), str(outcome), (float() | int()) as seconds]:
                self._add_phase(stable_name(name), when, outcome, float(seconds))
            case "collect", [str(name)]:
                self.failed.add(stable_name(name))
            case "function", [int(process), int(number), str(path), int(line)]:
                if len(self._places) < MOST_FUNCTIONS:
                    self._places[process, number] = f"{path}:{line}"
            case "ran", [str(name), int(process), numbers] if isinstance(numbers, list):
                self._add_functions(stable_name(name), process, cast(list[Any], numbers))
            case _:
                return

    def _add_phase(self, name: str, when: str, outcome: str, seconds: float) -> None:
        self.seconds[name] = self.seconds.get(name, 0.0) + min(max(seconds, 0.0), 1e6)
        if outcome == "rerun":  # pytest-rerunfailures: the attempt does not count
            self.failed.discard(name)
            self._good[name] = False
        elif outcome == "failed":
            self.failed.add(name)
        elif outcome in ("skipped", "xfail"):
            self._skipped.add(name)
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


class WrapperOutput:
    """An execution's output, taken apart: what the command printed, and what was recorded."""

    def __init__(self, execution: Execution, mark: str) -> None:
        pattern = re.compile(rf"^{re.escape(mark)} (\w+) ([A-Za-z0-9+/=]*)$", re.MULTILINE)
        found = list(pattern.finditer(execution.output))
        self.records = b""
        self.documents: list[bytes] = []
        self.end: CommandEnd | None = None
        left = MOST_DOCUMENTS
        for match in found:
            if match[1] == "records":
                self.records = unpack(match[2], MOST_SECTION)
            elif match[1] == "junit" and (document := unpack(match[2], left)):
                self.documents.append(document)
                left -= len(document)
            elif match[1] == "end":
                self.end = _parse_end(unpack(match[2], 10_000))
        printed = execution.output[: found[0].start()] if found else execution.output
        self.execution = self._correct_ending(replace(execution, output=printed.rstrip("\n")))

    def _correct_ending(self, execution: Execution) -> Execution:
        """As the command ended, not the wrapper around it."""
        if self.end is None:
            return execution
        update: dict[str, Any] = {}
        if self.end.timeout:
            update = {"exit_code": None, "ending": Ending.TIMEOUT}
        elif self.end.signal is not None:
            update = {"exit_code": None, "ending": Ending.KILLED}
        return replace(execution, **update)


def unpack(text: str, most: int) -> bytes:
    """A section's bytes; empty when it is broken or unpacks to more than `most`."""
    try:
        packed = base64.b64decode(text, validate=True)
        reader = zlib.decompressobj()
        data = reader.decompress(packed, max(most, 1))
    except (binascii.Error, zlib.error):
        return b""
    return data if reader.eof else b""


def _parse_end(data: bytes) -> CommandEnd | None:
    try:
        return CommandEnd.model_validate_json(data)
    except ValidationError:
        return None


def _parse_row(line: bytes) -> list[Any] | None:
    try:
        row: Any = json.loads(line)
    except (ValueError, RecursionError):
        return None
    return list(_strings(cast(list[Any], row))) if isinstance(row, list) and row else None


def _strings(row: list[Any]) -> Iterator[Any]:
    """The values, the first as a string whatever it was."""
    yield str(row[0])[:20]
    yield from row[1:]
