"""Which tests are run for an edit: those that may feel it first, the rest while the time lasts."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from pipeline.regression.runner import TestRun
from pipeline.regression.touched import TouchedCode

SHARE = 0.8
"""Of the time limit that is planned for: machines are not always equally fast."""
_FAR = 1000


@dataclass(frozen=True)
class ChosenTests:
    """The tests to run on an edit."""

    tests: tuple[str, ...]
    whole: int
    """How many tests pass without the edit, as far as that is known."""
    description: str
    """Which they are, to go on "n of m tests were run: "; empty when all are."""


def choose_tests(
    base: TestRun, touched: TouchedCode, distances: Mapping[str, int], *, seconds: float
) -> ChosenTests:
    """Of the tests that pass on `base`, those to run in at most `seconds`, in this order:

    1. those that run a function which is changed inside, or, for what is changed outside of
       functions, any function of the file;
    2. those in files that import a touched file, by how many steps (`distances`);
    3. the others.

    Quick ones come first within each. Tests in files that the edit removes are not asked for.
    """
    passed = [n for n in base.suite.passed if base.files.get(n, "") not in touched.gone]
    running = tests_that_ran(base, touched)
    rank = {
        name: 0 if name in running else distances.get(base.files.get(name, ""), _FAR)
        for name in passed
    }
    costs = _costs(base)
    left = seconds * SHARE - base.start
    chosen: list[str] = []
    for name in sorted(passed, key=lambda n: (rank[n], costs[n], n)):
        left -= costs[name]
        if left < 0 and chosen:
            break
        chosen.append(name)
    return ChosenTests(
        tests=tuple(chosen),
        whole=len(passed),
        description=_describe_choice(chosen, rank, complete=len(chosen) == len(passed)),
    )


def tests_that_ran(base: TestRun, touched: TouchedCode) -> set[str]:
    """The tests that were seen to run what is touched."""
    places: Iterable[str] = touched.functions
    if touched.outside:
        files = touched.outside
        places = [*places, *(p for p in base.ran if p.rpartition(":")[0] in files)]
    numbers = {number for place in places for number in base.ran.get(place, ())}
    return {base.names[number] for number in numbers if number < len(base.names)}


def _costs(base: TestRun) -> dict[str, float]:
    """What each test is expected to take, so that all together take what they did.

    That is more than their own times when there is work between them, and less when they ran side
    by side.
    """
    names = {*base.suite.passed, *base.suite.failed}
    whole = max(0.0, base.suite.execution.seconds - base.start)
    total = sum(base.seconds.get(name, 0.0) for name in names)
    if not total:
        return dict.fromkeys(names, whole / max(1, len(names)))
    return {name: base.seconds.get(name, 0.0) * whole / total for name in names}


def _describe_choice(chosen: list[str], rank: Mapping[str, int], *, complete: bool) -> str:
    if complete:
        return ""
    ranks = {rank[name] for name in chosen}
    if _FAR not in ranks:
        return "those that run or import what the edit touches"
    if ranks == {_FAR}:
        return "as many as the time allows; none is known to touch what the edit changes"
    return "those that run or import what the edit touches, then others while the time lasted"
