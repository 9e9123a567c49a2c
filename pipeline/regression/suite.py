"""Runs the repository's tests on edits: all once on the unedited code, then the relevant ones on
each."""

import asyncio
import math
from collections import Counter
from collections.abc import Collection, Iterable, Sequence

from pipeline import reasons
from pipeline.codebase.unified_diff import list_paths
from pipeline.concurrency import gather_bounded
from pipeline.data.progress import Doing
from pipeline.data.suite_reports import SuiteReport, SuiteRun
from pipeline.languages.code_scan import CodeScan
from pipeline.languages.conventions import is_test
from pipeline.languages.registry import is_runnable, scan_codebase
from pipeline.languages.test_command import TestCommand
from pipeline.regression.affected_tests import (
    EDIT_SECONDS,
    ChosenTests,
    TouchedCode,
    choose_tests,
    find_touched,
    tests_that_ran,
)
from pipeline.regression.command import NO_COMMAND, RequestedTests, find_commands
from pipeline.regression.compare import (
    REPEATS,
    compare_runs,
    join_reports,
    keep_measured,
    merge_runs,
)
from pipeline.regression.counts import CountReporter
from pipeline.regression.near_tests import NearbyTests
from pipeline.regression.results import TestRun
from pipeline.regression.runner import TestRunner
from pipeline.resources import Workspace
from sandbox.frozen import replace
from sandbox.program import Ending

CONCURRENT_EDITS = 2
"""Edits tested concurrently; the tests of one may themselves run in parallel."""
MOST_SHARED = 2
"""Test files near every edit because other edits change them, or a checklist names them."""
LEAST_SECONDS = 10.0
"""With less wall time left, no run of the suite begins."""


class RegressionSuite:
    """One repository's tests in one sandbox. Every run is saved, so none is repeated."""

    def __init__(self, workspace: Workspace) -> None:
        """The clock of `workspace` leaves the tests no time that later stages need."""
        self._workspace = workspace
        self._codebase = workspace.codebase
        self._options = workspace.options
        self._counts = CountReporter(workspace.report)
        self._near = NearbyTests(workspace, on_run=workspace.report)
        self._lock = asyncio.Lock()
        self._known: tuple[TestRunner, TestRun] | None = None
        self._code_scan: CodeScan | None = None
        self.problem = ""
        """Why the suite has no result for any edit, in a sentence; may quote the configuration."""

    async def compare_all(self, diffs: Sequence[str]) -> list[SuiteReport | None]:
        """Compare every one of `diffs`, in their order, a few concurrently.

        The tests near each edit run before the whole suite of any.
        """
        if self._options.nearby_seconds and not math.isinf(self._time_left()):
            await gather_bounded(CONCURRENT_EDITS, (self._near.compare(diff) for diff in diffs))
        return await gather_bounded(CONCURRENT_EDITS, (self.compare(diff) for diff in diffs))

    async def compare(self, diff: str) -> SuiteReport | None:
        """Compare the relevant tests without and with `diff`; None if there is no result: there are
        no tests, or all fail without it (`problem` says which).

        Apparently broken tests run again (`pipeline.regression.compare`), unless the time ran out
        with `diff`. In that case, only tests with a result count (`keep_measured`).

        The tests near the edit come first (`NearbyTests`); if one of them breaks, or all tests
        would exceed a time limit, no others run. What the time of the run cuts short says so.

        Raises:
            PatchRejected: a diff does not apply.
            SandboxUnavailable: a program could not be started, or its end is unknown.
        """
        near = await self._near.compare(diff) if self._options.nearby_seconds else None
        whole_seconds = self._near.whole_seconds.get(diff, 0.0)
        if near and (near.broken or whole_seconds > self._options.suite_seconds):
            return near
        # The tests run once without an edit and once with it; both take at least their processor
        # time.
        left = self._time_left()
        if left >= LEAST_SECONDS and not (near and self._known is None and whole_seconds > left):
            return await self._compare_whole(diff, near)
        self.problem = (
            self.problem
            or "The time limit for one run was reached before this repository's tests could run."
        )
        if near is None or near.whole:
            return near
        return replace(near, chosen=f"{near.chosen}; there was no time for more")

    def prefer(self, paths: Iterable[str]) -> None:
        """Take the test files among `paths` as near every edit, the most frequent ones first."""
        there = self._codebase.files
        counts = Counter(path for path in paths if is_test(path) and path in there)
        self._near.shared = tuple(path for path, _ in counts.most_common(MOST_SHARED))

    async def load_near(self, diff: str) -> SuiteReport | None:
        """The saved comparison of the tests near `diff`; runs nothing."""
        return await self._near.load(diff) if self._options.nearby_seconds else None

    async def run_brought_tests(
        self, diff: str, paths: Sequence[str], attempt: int = 0
    ) -> SuiteRun | None:
        """Run the test files `paths`, with `diff`; None if no command can, or time is short. Each
        `attempt` is saved apart."""
        if self._time_left() < LEAST_SECONDS:
            return None
        self._counts.tell(Doing("Running the tests that the edits bring, with each edit."))
        return await self._near.run_files(diff, paths, attempt)

    def _time_left(self) -> float:
        """Seconds of wall time that the suite may still take."""
        return self._workspace.clock.seconds_left("choice")

    async def _compare_whole(self, diff: str, near: SuiteReport | None) -> SuiteReport | None:
        """Compare tests of the whole suite; where not all of them can run, those that `near` does
        not have, and both together."""
        known = await self._find_base(await self._near.files.find(diff))
        if known is None:
            return near
        runner, base = known
        touched, distances = await self._find_touched(diff)
        if near is None:
            base = await self._extend_base(runner, base, diff)
        choice = self._choose_tests(runner, base, touched, distances)
        told = near if near and near.command == runner.command.argv else None
        if told and _has_all(told, choice, diff):
            return replace(told, whole=choice.whole, chosen=choice.description)
        if told and (choice.description or not base.ended):
            seen = frozenset(told.before.passed)
            choice = self._choose_tests(runner, base, touched, distances, seen)
        else:
            told = None
        if not choice.tests:
            return near
        left = max(LEAST_SECONDS, self._time_left())
        after = await runner.run(diff, _request_for(choice, base), wall=left)
        if after.suite.execution.ending is Ending.UNBUILT:  # no test has a say
            self.problem = after.problem
            return near
        names = keep_measured(choice.tests, base, after)
        if not names:
            if near is None:
                self.problem = self.problem or (
                    "The run with the edit reached its time limit before any test had a result."
                )
            return near
        words = choice.description
        if len(names) < len(choice.tests):
            words = "those that could run in time with the edit"
        repeats = self._count_repeats(base, after, set(names) - set(after.suite.passed))
        report = await compare_runs(
            runner, self._codebase, base, after, diff=diff, names=names, repeats=repeats
        )
        direct = await self._near.files.find_direct(diff)
        of_changed = tests_that_ran(base, touched)
        reached = any(one in of_changed or base.files.get(one) in direct for one in names)
        report = replace(
            report, whole=choice.whole, chosen=words, unreached=bool(base.files) and not reached
        )
        return join_reports(told, report) if told else report

    def _count_repeats(self, base: TestRun, after: TestRun, broken: Collection[str]) -> int:
        """How often the files of the `broken` tests run again: not if the time ran out, or would.

        A quick check is made at any time: else a test that depends on its neighbours, of which
        fewer run with an edit, would speak against the edit.
        """
        if after.suite.execution.ending is Ending.TIMEOUT:
            return 0
        seconds = _expect_seconds(base, after, broken)
        if 2 * REPEATS * seconds < self._time_left():
            return REPEATS
        # A short run is repeated whatever time is left.
        return 1 if seconds <= 120.0 else 0

    def _choose_tests(
        self,
        runner: TestRunner,
        base: TestRun,
        touched: TouchedCode,
        distances: dict[str, int],
        seen: frozenset[str] = frozenset(),
    ) -> ChosenTests:
        """The tests to run, without those in `seen`; all if the command cannot run a part."""
        if not runner.command.can_choose:
            return choose_tests(base, touched, distances, seconds=math.inf)
        seconds = min(EDIT_SECONDS, runner.seconds, self._time_left() / _slowness(base))
        return choose_tests(base, touched, distances, seconds=seconds, seen=seen)

    async def prepare(self, paths: Sequence[str]) -> None:
        """Run the tests without an edit while no edit is known; `paths` are likely to be edited.

        They run only if they are expected to end in time. Three files tell little of the others: a
        whole suite took three times what was expected, beside the tests that samples waited for.
        """
        if not self._options.nearby_seconds or self._time_left() < LEAST_SECONDS:
            return
        seconds = 3 * await self._near.run_unedited(paths)
        if seconds <= min(self._options.suite_seconds, self._time_left() / 2):
            await self._find_base(tuple(paths), ahead=True)

    async def _find_base(
        self, first: Sequence[str], *, ahead: bool = False
    ) -> tuple[TestRunner, TestRun] | None:
        """Find the first command by which any test passes on the unedited code, with its results;
        the files `first` run before the others. A comparison asks again, and says how many."""
        async with self._lock:
            if self._known or self.problem:
                return self._known
            commands = await find_commands(self._codebase, self._options.test_command)
            self.problem = NO_COMMAND
            for command in commands:
                runner = TestRunner(
                    command,
                    sandbox=self._workspace.sandbox,
                    store=self._workspace.store,
                    seconds=self._options.suite_seconds,
                    counts=self._counts,
                    on_run=self._workspace.report,
                )
                # As much again is for the tests with an edit.
                wall = max(LEAST_SECONDS, self._time_left() / 2)
                base = await runner.run(
                    "", RequestedTests(functions=True, first=tuple(first)), wall=wall
                )
                if base.suite.passed and (base.ended or command.can_choose):
                    self.problem, self._known = "", (runner, base)
                    if not ahead:
                        self._workspace.say(reasons.describe_base(base.suite))
                    break
                self.problem = _explain_no_pass(command, base)
            return self._known

    async def _find_touched(self, diff: str) -> tuple[TouchedCode, dict[str, int]]:
        async with self._lock:
            if self._code_scan is None:
                self._code_scan = await scan_codebase(self._codebase)
        touched = find_touched(diff, self._code_scan.functions)
        return touched, self._code_scan.distances(touched.files)

    async def _extend_base(self, runner: TestRunner, base: TestRun, diff: str) -> TestRun:
        """Complete a `base` that was cut off with the tests nearest to `diff`, if it did not reach
        them; what merely imports the code in some way is nearly everything."""
        if base.ended or not base.per_test or not runner.command.can_choose:
            return base
        reached = {base.files.get(name, "") for name in base.suite.passed}
        files = await self._near.find_files(diff, runner)
        near = tuple(sorted(path for path in files if path not in reached))
        if not near:
            return base
        wall = max(LEAST_SECONDS, self._time_left() / 2)
        more = await runner.run("", RequestedTests(files=near, functions=True), wall=wall)
        return merge_runs(base, more)


def _has_all(near: SuiteReport, choice: ChosenTests, diff: str) -> bool:
    """Whether `near` has a result of every chosen test; test files that `diff` brings run only with
    the whole suite."""
    ran = {*near.before.passed, *near.flaky}
    return ran.issuperset(choice.tests) and not any(map(is_runnable, list_paths(diff)))


def _expect_seconds(base: TestRun, after: TestRun, names: Collection[str]) -> float:
    """The expected wall time of all tests in the files of `names`."""
    files = {base.files.get(name, "") for name in names}
    if "" in files:
        return after.suite.execution.seconds
    there = (name for name, path in base.files.items() if path in files)
    tests = sum(base.seconds.get(name, 0.0) for name in there)
    return min(after.suite.execution.seconds, base.start * _slowness(base) + tests)


def _slowness(base: TestRun) -> float:
    """Wall seconds for each processor second of `base`, at least 1."""
    execution = base.suite.execution
    if not execution.cpu_seconds:
        return 1.0
    return max(1.0, execution.seconds / execution.cpu_seconds)


def _request_for(choice: ChosenTests, base: TestRun) -> RequestedTests:
    if not base.per_test or (base.ended and not choice.description):
        return RequestedTests()
    files = dict.fromkeys(base.files.get(name, "") for name in choice.tests)
    known = None if "" in files else tuple(files)
    return RequestedTests(tests=tuple(sorted(choice.tests)), files=known)


def _explain_no_pass(command: TestCommand, base: TestRun) -> str:
    name = f"`{' '.join(command.argv)[:300]}`"
    execution = base.suite.execution
    stopped = execution.exit_code is None and execution.ending is not Ending.OUTPUT
    if base.problem and stopped and not command.can_choose:
        return f"{name} cannot be run in part, and the full run did not finish."
    if base.problem:
        return f"{name} gives no result on the unmodified code. {base.problem}"
    failed, offline = len(base.suite.failed), len(base.suite.offline)
    how = f"{failed} fail" if failed else "no single test could be distinguished"
    if failed and not base.per_test:
        how = f"it fails as a whole, with exit code {execution.exit_code}"
    if offline and not failed:
        how = f"{offline} need a network, a display or a service, which the sandbox does not have"
    if execution.exit_code is None:
        how = f"it ended with {execution.ending.value}"
    return f"With {name}, no test passes on the unmodified code: {how}."
