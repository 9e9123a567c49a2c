"""Reads test names and outcomes from JUnit XML. The XML is untrusted."""

from __future__ import annotations

import io
from collections.abc import Iterable
from dataclasses import dataclass, field
from xml.etree.ElementTree import Element, ParseError

from defusedxml.common import DefusedXmlException
from defusedxml.ElementTree import iterparse

from pipeline.regression.guest.record import stable_name

MOST_TESTS = 200_000
MOST_DEPTH = 50
"""Nesting depth of elements; suites in suites take four or five."""


@dataclass
class Outcomes:
    """The passed and failed tests; a test that did both failed."""

    passed: set[str] = field(default_factory=set[str])
    failed: set[str] = field(default_factory=set[str])
    errors: set[str] = field(default_factory=set[str])
    """Failed tests that ended in an error outside of their own checks."""
    skipped: set[str] = field(default_factory=set[str])
    """Skipped tests and expected failures."""
    seconds: dict[str, float] = field(default_factory=dict[str, float])

    def add(self, name: str, *, good: bool, seconds: float) -> None:
        (self.passed if good else self.failed).add(name)
        self.seconds[name] = self.seconds.get(name, 0.0) + seconds


def parse_junit(documents: Iterable[bytes]) -> Outcomes:
    """Parse the tests of all `documents`; ignore one that is not XML or contains entities.

    A test's name is `classname::name`. The format is described at
    https://github.com/testmoapp/junitxml. Each element is freed once it is read.
    """
    found = Outcomes()
    for document in documents:
        cases = Outcomes()
        try:
            _read_cases(document, cases, MOST_TESTS - len(found.seconds))
        except (ParseError, DefusedXmlException, ValueError, RecursionError):
            continue
        found.passed |= cases.passed
        found.failed |= cases.failed
        found.errors |= cases.errors
        found.skipped |= cases.skipped
        for name, seconds in cases.seconds.items():
            found.seconds[name] = found.seconds.get(name, 0.0) + seconds
    found.passed -= found.failed
    return found


def _read_cases(document: bytes, found: Outcomes, most: int) -> None:
    path: list[Element] = []
    kinds: dict[Element, set[str]] = {}
    events = iterparse(io.BytesIO(document), events=("start", "end"), forbid_dtd=True)
    for event, element in events:
        if event == "start":
            path.append(element)
            if len(path) > MOST_DEPTH:
                raise ValueError("nested too deeply")
            continue
        path.pop()
        if element.tag == "testcase" and len(found.seconds) < most:
            _add(found, element, kinds.pop(element, set()))
        if path:
            if path[-1].tag == "testcase":
                kinds.setdefault(path[-1], set()).add(element.tag)
            path[-1].remove(element)


def _add(found: Outcomes, case: Element, kinds: set[str]) -> None:
    place = case.get("classname") or case.get("file") or ""
    name = stable_name("::".join(filter(None, (place, case.get("name", "")))))
    if name and "skipped" in kinds:
        found.skipped.add(name)
    elif name:
        found.add(name, good=not kinds & {"failure", "error"}, seconds=_seconds(case))
        if "error" in kinds:
            found.errors.add(name)


def _seconds(case: Element) -> float:
    try:
        seconds = float(case.get("time", "0").replace(",", ""))
    except ValueError:
        return 0.0
    return seconds if 0 <= seconds < 1e6 else 0.0
