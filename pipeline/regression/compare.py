"""Compares two runs of the same tests: apparently broken tests run again, and may be flaky."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

from pipeline.codebase.commit import Codebase
from pipeline.regression.command import RequestedTests
from pipeline.regression.control import CONTROL, ControlTests
from pipeline.regression.results import TestRun
from pipeline.regression.runner import TestRunner
from pipeline.types import SuiteReport, SuiteRun, replace

REPEATS = 2
"""The maximum of further runs, both with and without the edit."""
HUNG_SECONDS = 10.0
HUNG_FACTOR = 10.0
"""A test hangs if it ran so long, and so many times as long as without the edit, with no end."""
MOST_REPEATED = 2000
"""More broken tests than this are not due to chance; they do not run again."""


@dataclass(frozen=True)
class RerunResult:
    """The results of running apparently broken tests again."""

    passed: tuple[str, ...] = ()
    """Tests that passed with the edit in a further run."""
    flaky: tuple[str, ...] = ()
    """Tests that did not always pass without the edit."""


async def compare_runs(
    runner: TestRunner,
    codebase: Codebase,
    base: TestRun,
    after: TestRun,
    *,
    diff: str,
    names: Collection[str],
    repeats: int = REPEATS,
) -> SuiteReport:
    """Compare the tests `names`, which pass on `base`, with their results `after` applying `diff`.

    Apparently broken tests run again, with and without `diff`: those that pass in a further run
    with it are not broken; those that fail in one without it are flaky, and left out. Where none
    is broken, control tests must fail, or count as broken (`pipeline.regression.control`).
    """
    broken = set(names) - set(after.suite.passed)
    found = await confirm_broken(runner, diff, broken, base, repeats)
    flaky = set(found.flaky)
    passed = {*after.suite.passed, *found.passed} - flaky
    counted = set(names) - flaky
    hung = counted.intersection(after.unfinished)
    failed = hung.union(after.suite.failed) - passed - flaky
    seen = passed.union(after.suite.failed, after.suite.skipped)
    if not counted - passed and diff:
        controls = ControlTests(runner, codebase, base)
        if await controls.are_forged(diff, counted):
            counted.add(CONTROL)
    return SuiteReport(
        command=runner.command.argv,
        before=SuiteRun(
            execution=base.suite.execution,
            passed=tuple(sorted(counted)),
            failed=tuple(name for name in base.suite.failed if name in seen),
            offline=base.suite.offline,
            errors=tuple(name for name in base.suite.errors if name in seen),
            skipped=tuple(name for name in base.suite.skipped if name in seen),
            raised=base.suite.raised,
            cut=base.suite.cut,
        ),
        after=SuiteRun(
            execution=after.suite.execution,
            passed=tuple(sorted(passed)),
            failed=tuple(sorted(failed)),
            offline=after.suite.offline,
            errors=tuple(name for name in after.suite.errors if name in failed),
            skipped=after.suite.skipped,
            raised=after.suite.raised,
            cut=after.suite.cut,
        ),
        failing=tuple(name for name in base.suite.failed if name not in seen | flaky),
        flaky=found.flaky,
    )


def join_reports(near: SuiteReport, rest: SuiteReport) -> SuiteReport:
    """Join what two runs of the same command say of an edit; the outputs are those of `rest`.

    A test that breaks in one of them is broken.
    """
    flaky = {*near.flaky, *rest.flaky}
    broken = {*near.broken, *rest.broken} - flaky
    before = tuple(sorted({*near.before.passed, *rest.before.passed} - flaky))
    passed = {*near.after.passed, *rest.after.passed} - broken - flaky
    joined = _join_runs(near.before, rest.before, set(before))
    failing = {*near.failing, *rest.failing} - {*joined.failed, *joined.passed} - flaky
    others = f", of the others, {rest.chosen}" if rest.chosen else " the others"
    return replace(
        rest,
        before=joined,
        after=_join_runs(near.after, rest.after, passed),
        failing=tuple(sorted(failing)),
        flaky=tuple(sorted(flaky)),
        chosen=f"{near.chosen}, and then{others}",
        near=len(near.before.passed),
    )


def _join_runs(near: SuiteRun, rest: SuiteRun, passed: set[str]) -> SuiteRun:
    failed = {*near.failed, *rest.failed} - passed
    return replace(
        rest,
        passed=tuple(sorted(passed)),
        failed=tuple(sorted(failed)),
        offline=tuple(sorted({*near.offline, *rest.offline} - passed)),
        errors=tuple(sorted({*near.errors, *rest.errors} & failed)),
        skipped=tuple(sorted({*near.skipped, *rest.skipped} - passed - failed)),
        raised={**near.raised, **rest.raised},
    )


def merge_runs(base: TestRun, more: TestRun) -> TestRun:
    """Merge both runs into one with the first's clock. Functions are the first's, and the second's
    under their own numbers."""
    shift = len(base.names)
    ran = {place: list(numbers) for place, numbers in base.ran.items()}
    for place, numbers in more.ran.items():
        ran.setdefault(place, []).extend(number + shift for number in numbers)
    failed = {*base.suite.failed, *more.suite.failed}
    passed = {*base.suite.passed, *more.suite.passed} - failed
    suite = SuiteRun(
        execution=base.suite.execution,
        passed=tuple(sorted(passed)),
        failed=tuple(sorted(failed)),
        offline=tuple(sorted({*base.suite.offline, *more.suite.offline})),
        errors=tuple(sorted({*base.suite.errors, *more.suite.errors} & failed)),
        skipped=tuple(sorted({*base.suite.skipped, *more.suite.skipped} - passed - failed)),
        raised={**base.suite.raised, **more.suite.raised},
    )
    counts = {"ran": _count_results(suite), "skipped": len(suite.skipped)}
    cut = base.suite.cut and replace(base.suite.cut, **counts)
    return replace(
        base,
        suite=replace(suite, cut=cut),
        unfinished={**base.unfinished, **more.unfinished},
        files={**base.files, **more.files},
        seconds={**base.seconds, **more.seconds},
        ran=ran,
        names=base.names + more.names,
    )


def _count_results(suite: SuiteRun) -> int:
    return len({*suite.passed, *suite.failed, *suite.offline, *suite.skipped})


def choose_told(names: Collection[str], base: TestRun, after: TestRun) -> tuple[str, ...]:
    """Those of `names` on which the run `after` tells something: all, unless its time ran out.

    The test that ran when the time was over has no result, unless it hangs; where the start of all
    tests hangs, none passes.
    """
    if after.suite.cut is None:
        return tuple(names)
    began = {*after.files, *after.suite.passed, *after.suite.failed, *after.suite.skipped}
    if not began:
        execution = after.suite.execution
        usual = base.start or base.suite.execution.seconds
        hangs = execution.limit == "idle" or _is_endless(execution.seconds, usual)
        return tuple(names) if hangs else ()
    cut_off = {
        name
        for name, seconds in after.unfinished.items()
        if not _is_endless(seconds, base.seconds.get(name, 0.0))
    }
    return tuple(name for name in names if name in began - cut_off)


def _is_endless(seconds: float, usual: float) -> bool:
    return seconds >= max(HUNG_SECONDS, HUNG_FACTOR * usual)


async def confirm_broken(
    runner: TestRunner, diff: str, broken: Collection[str], base: TestRun, repeats: int
) -> RerunResult:
    """Run the files of the `broken` tests again, with `diff` and, if they stay broken, without.

    Runs whole files, because a test may depend on its neighbours.
    """
    left = set(broken)
    if not left or len(left) > MOST_REPEATED:
        return RerunResult()
    wanted = _files_of(left, base)
    passed: set[str] = set()
    for attempt in range(1, repeats + 1):
        again = await runner.run(diff, wanted, attempt)
        passed |= left & set(again.suite.passed)
        left -= passed
        if not left:
            return RerunResult(passed=tuple(sorted(passed)))
    flaky: set[str] = set()
    for attempt in range(1, repeats + 1):
        again = await runner.run("", wanted, attempt)
        # A test that the time did not allow again is not flaky.
        flaky |= set(choose_told(left, base, again)) - set(again.suite.passed)
        left -= flaky
        if not left:
            break
    return RerunResult(passed=tuple(sorted(passed)), flaky=tuple(sorted(flaky)))


def _files_of(names: Collection[str], base: TestRun) -> RequestedTests:
    files = {base.files.get(name, "") for name in names}
    return RequestedTests() if "" in files else RequestedTests(files=tuple(sorted(files)))
