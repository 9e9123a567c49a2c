"""Two runs of the same tests side by side: what seems broken is run again, and may be flaky."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

from pipeline.regression.runner import RequestedTests, TestRun, TestRunner
from pipeline.types import SuiteReport, SuiteRun

REPEATS = 2
"""Further runs with the edit, and as many without it, at most."""
MOST_REPEATED = 2000
"""More tests than this do not break by chance; they are not run again."""


@dataclass(frozen=True)
class RerunResult:
    """What came of the tests that seemed broken."""

    passed: tuple[str, ...] = ()
    """They passed with the edit in a further run."""
    flaky: tuple[str, ...] = ()
    """They did not always pass without the edit."""


async def compare_runs(
    runner: TestRunner,
    base: TestRun,
    after: TestRun,
    *,
    diff: str,
    names: Collection[str],
    repeats: int = REPEATS,
) -> SuiteReport:
    """The tests `names`, which pass on `base`, beside how they went `after` with `diff`.

    What seems broken is run again, with and without `diff`: tests that pass in a further run are
    not broken; those that fail in one without the edit are flaky, and left out.
    """
    broken = set(names) - set(after.suite.passed)
    found = await confirm_broken(runner, diff, broken, base, repeats)
    flaky = set(found.flaky)
    passed = {*after.suite.passed, *found.passed} - flaky
    return SuiteReport(
        command=runner.command.argv,
        before=SuiteRun(
            execution=base.suite.execution,
            passed=tuple(sorted(set(names) - flaky)),
            failed=base.suite.failed,
        ),
        after=SuiteRun(
            execution=after.suite.execution,
            passed=tuple(sorted(passed)),
            failed=tuple(sorted(set(after.suite.failed) - passed - flaky)),
        ),
        flaky=found.flaky,
    )


async def confirm_broken(
    runner: TestRunner, diff: str, broken: Collection[str], base: TestRun, repeats: int
) -> RerunResult:
    """Run the files of the `broken` tests again, with `diff` and, if they stay broken, without.

    Whole files, as a test may lean on its neighbours.
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
        flaky |= left - set(again.suite.passed)
        left -= flaky
        if not left:
            break
    return RerunResult(passed=tuple(sorted(passed)), flaky=tuple(sorted(flaky)))


def _files_of(names: Collection[str], base: TestRun) -> RequestedTests:
    files = {base.files.get(name, "") for name in names}
    return RequestedTests() if "" in files else RequestedTests(files=tuple(sorted(files)))
