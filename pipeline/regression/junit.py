"""JUnit XML as test runners write it: names and outcomes. Its writer is not trusted."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from xml.etree.ElementTree import Element, ParseError

from defusedxml.common import DefusedXmlException
from defusedxml.ElementTree import fromstring

from pipeline.regression.guest.record import stable_name

MOST_TESTS = 200_000


@dataclass
class Outcomes:
    """Which tests passed and failed; one that did both failed."""

    passed: set[str] = field(default_factory=set[str])
    failed: set[str] = field(default_factory=set[str])
    seconds: dict[str, float] = field(default_factory=dict[str, float])

    def add(self, name: str, *, good: bool, seconds: float) -> None:
        (self.passed if good else self.failed).add(name)
        self.seconds[name] = self.seconds.get(name, 0.0) + seconds


def parse_junit(documents: Iterable[bytes]) -> Outcomes:
    """The tests of all `documents`; one that is no XML, or has entities in it, tells nothing.

    A test is called `classname::name`. Skipped ones are left out. The format is described at
    https://github.com/testmoapp/junitxml.
    """
    found = Outcomes()
    for document in documents:
        try:
            root = fromstring(document, forbid_dtd=True)
        except (ParseError, DefusedXmlException, ValueError, RecursionError):
            continue
        for case in root.iter("testcase"):
            if len(found.seconds) >= MOST_TESTS:
                break
            _add(found, case)
    found.passed -= found.failed
    return found


def _add(found: Outcomes, case: Element) -> None:
    kinds = {child.tag for child in case}
    if "skipped" in kinds:
        return
    place = case.get("classname") or case.get("file") or ""
    name = stable_name("::".join(filter(None, (place, case.get("name", "")))))
    if name:
        found.add(name, good=not kinds & {"failure", "error"}, seconds=_seconds(case))


def _seconds(case: Element) -> float:
    try:
        seconds = float(case.get("time", "0").replace(",", ""))
    except ValueError:
        return 0.0
    return seconds if 0 <= seconds < 1e6 else 0.0
