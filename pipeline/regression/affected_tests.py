"""The tests that an edit may affect."""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from pipeline.codebase.unified_diff import Hunk, parse_diff
from pipeline.regression.results import TestRun


@dataclass(frozen=True)
class TouchedCode:
    """Everything is named as on the unedited code."""

    files: frozenset[str]
    """Files that are changed, removed, renamed or new."""
    gone: frozenset[str]
    functions: frozenset[str]
    """`path:line` of changed functions."""
    outside: frozenset[str]
    """Files changed outside of any function, or with unknown functions."""


def find_touched(diff: str, functions: Mapping[str, Sequence[tuple[int, int]]]) -> TouchedCode:
    """Find what `diff` touches; `functions` are first and last lines by path."""
    parsed = parse_diff(diff)
    inside: set[str] = set()
    outside: set[str] = set()
    for file in parsed:
        path = file.old
        if path is None:
            continue
        spans = functions.get(path)
        for first, last in (region for hunk in file.hunks for region in _regions(hunk)):
            span = _innermost_function(spans or (), first, last)
            if span is not None:
                inside.add(f"{path}:{span[0]}")
            if span is None or last > span[1]:
                outside.add(path)
        if not file.hunks:  # a mode, a rename, a binary part
            outside.add(path)
    names = {name for file in parsed for name in (file.old, file.new) if name}
    gone = {file.old for file in parsed if file.old and file.old != file.new}
    return TouchedCode(frozenset(names), frozenset(gone), frozenset(inside), frozenset(outside))


def _regions(hunk: Hunk) -> Iterator[tuple[int, int]]:
    """First and last old line; for a pure addition, the lines before and after the place.

    Lines added next to removed lines replace them.
    """
    line = hunk.start
    previous = " "
    for marker, _ in hunk.lines:
        if marker == "-":
            yield line, line
        elif marker == "+" and previous == " ":
            yield line - 1, line
        line += marker != "+"
        previous = marker


def _innermost_function(
    spans: Sequence[tuple[int, int]], first: int, last: int
) -> tuple[int, int] | None:
    """The innermost function that contains both lines, or whose last line is `first`."""
    holding = [span for span in spans if span[0] <= first and last <= span[1] + 1]
    holding = [span for span in holding if first <= span[1]]
    return max(holding, default=None)


SHARE = 0.8
"""The share of the time limit to plan for: machines differ in speed."""
EDIT_SECONDS = 75.0
"""Processor seconds to plan for one edit at most: of a function that all tests run, more of them
seldom show more."""
OTHERS_SECONDS = 60.0
"""Processor seconds up to which tests run that are unrelated to the edit."""
_FAR = 1000


@dataclass(frozen=True)
class ChosenTests:
    """The tests to run on an edit."""

    tests: tuple[str, ...]
    whole: int
    """How many tests are known to pass without the edit."""
    description: str
    """Which tests they are, to follow "n of m tests were run: "; empty if all are."""


def choose_tests(
    base: TestRun,
    touched: TouchedCode,
    distances: Mapping[str, int],
    *,
    seconds: float,
    seen: Collection[str] = (),
) -> ChosenTests:
    """Choose from the tests that pass on `base`, without those in `seen`, which ran already, those
    to run in at most `seconds`, in this order:

    1. those that run a changed function, or, for changes outside of functions, any function of
       the file;
    2. those in files that import a touched file, by the number of steps (`distances`);
    3. the others.

    Within each group, quick tests come first; the others run only while they take at most
    `OTHERS_SECONDS` in total. Tests in files that the edit removes are left out.
    """
    there = [n for n in base.suite.passed if base.files.get(n, "") not in touched.gone]
    passed = [name for name in there if name not in seen] if seen else there
    running = tests_that_ran(base, touched)
    rank = {
        name: 0 if name in running else distances.get(base.files.get(name, ""), _FAR)
        for name in passed
    }
    costs = _costs(base)
    left = seconds * SHARE - base.start
    others = OTHERS_SECONDS - base.start
    chosen: list[str] = []
    for name in sorted(passed, key=lambda n: (rank[n], costs[n], n)):
        left -= costs[name]
        others -= costs[name]
        if chosen and (left < 0 or (others < 0 and rank[name] == _FAR)):
            break
        chosen.append(name)
    return ChosenTests(
        tests=tuple(chosen),
        whole=len({*there, *seen}),
        description=_describe_choice(chosen, rank, passed),
    )


def tests_that_ran(base: TestRun, touched: TouchedCode) -> set[str]:
    """The tests that ran touched code."""
    places: Iterable[str] = touched.functions
    if touched.outside:
        files = touched.outside
        places = [*places, *(p for p in base.ran if p.rpartition(":")[0] in files)]
    numbers = {number for place in places for number in base.ran.get(place, ())}
    return {base.names[number] for number in numbers if number < len(base.names)}


def _costs(base: TestRun) -> dict[str, float]:
    """The expected time of each test, scaled so that the total equals the measured total.

    It exceeds a test's own time if there is work between tests, and is less if tests ran in
    parallel.
    """
    names = {*base.suite.passed, *base.suite.failed}
    whole = max(0.0, base.suite.execution.own_seconds - base.start)
    total = sum(base.seconds.get(name, 0.0) for name in names)
    if not total:
        return dict.fromkeys(names, whole / max(1, len(names)))
    return {name: base.seconds.get(name, 0.0) * whole / total for name in names}


def _describe_choice(chosen: Sequence[str], rank: Mapping[str, int], passed: Sequence[str]) -> str:
    if len(chosen) == len(passed):
        return ""
    ranks = {rank[name] for name in chosen}
    if ranks == {_FAR}:
        return "as many as the time allowed; none is known to use the changed code"
    if any(rank[name] < _FAR for name in {*passed} - {*chosen}):
        return "those that use the changed code, within the time limit"
    if _FAR not in ranks:
        return "those that use the changed code"
    return "those that use the changed code, then others within the time limit"
