"""Tests under the names that benchmarks give them."""

from __future__ import annotations

import re
from dataclasses import dataclass, field

from pipeline.regression.results import TestRun

_UNITTEST = re.compile(r"(\w+) \(([\w.]+)\)")
_PATH_PARAMETER = re.compile(r"\[(/[^/*\]][^*\]]{0,500})\]?$")


@dataclass
class NamedOutcomes:
    """Tests of one run under the names that benchmarks give them."""

    passed: set[str] = field(default_factory=set[str])
    failed: set[str] = field(default_factory=set[str])

    def passes(self, wanted: str) -> bool:
        """Whether the test ran and passed; of several of that name, all."""
        keys = normalise_name(wanted)
        return any(key in self.passed for key in keys) and not any(k in self.failed for k in keys)


def normalise_name(name: str) -> tuple[str, ...]:
    """A test's name as each version of each runner would write it, made the same.

    `test_a (m.C)` and, from Python 3.11 on, `test_a (m.C.test_a)` are `m.C.test_a`; pytest before 4
    writes `::()::`; the dataset cuts pytest's names at a space, and paths in them to their ends.
    """
    match = _UNITTEST.fullmatch(name.strip())
    if match:
        test, place = match[1], match[2]
        return (place if place.endswith(f".{test}") else f"{place}.{test}",)
    if "::" in name:
        name = (name.replace("::()::", "::").split() or [""])[0]
        return (_PATH_PARAMETER.sub(_shorten_path, name),)
    return (name.strip(),)


def _shorten_path(match: re.Match[str]) -> str:
    return "[/" + match[1].rstrip("]").split("/")[-1] + "]"


def read_outcomes(run: TestRun, *, bare: bool) -> NamedOutcomes:
    """The tests of `run` by all names under which they may be asked for; `bare`: also by the names
    of their functions alone."""
    found = NamedOutcomes()
    for names, kept in ((run.suite.passed, found.passed), (run.suite.failed, found.failed)):
        for name in names:
            kept.update(normalise_name(name))
            if bare:
                kept.add(name.rpartition("::")[2])
            if title := run.titles.get(name):
                kept.add(title.strip())
    found.failed.update(key for name in run.suite.offline for key in normalise_name(name))
    return found
