"""Runs the few tests of the repository that concern an edit's changes, early."""

from __future__ import annotations

import asyncio
import hashlib
import math
from collections.abc import Sequence

from pipeline.codebase.commit import Codebase
from pipeline.codebase.conventions import is_test
from pipeline.codebase.git import GitFailed
from pipeline.edits.added_tests import find_added_tests
from pipeline.edits.patches import read_patched
from pipeline.options import Options
from pipeline.regression.command import RequestedTests, find_commands
from pipeline.regression.compare import choose_told, compare_runs
from pipeline.regression.guest.record import is_named
from pipeline.regression.near_files import NearFiles
from pipeline.regression.results import TestRun
from pipeline.regression.runner import TestRunner
from pipeline.store import Store
from pipeline.types import SuiteReport, SuiteRun, replace
from sandbox.base import Sandbox

MOST_FALSE_STARTS = 9
"""Runs that end before a test begins; enough to find two files among twelve."""
FEWER = 3
"""How many near files to keep if all of them take too long to give a result."""


class NearbyTests:
    """Compares an edit with the unedited code on nearby tests. Every run is saved."""

    def __init__(
        self, codebase: Codebase, sandbox: Sandbox, store: Store, options: Options
    ) -> None:
        """`options.nearby_seconds` of processor time limit each run."""
        self._codebase = codebase
        self._sandbox = sandbox
        self._store = store
        self._options = options
        self._files = NearFiles(codebase, options.exclude)
        self._lock = asyncio.Lock()
        self._runners: list[TestRunner] | None = None
        self.whole_seconds: dict[str, float] = {}
        """By diff: the expected processor seconds of all tests."""

    async def compare(self, diff: str) -> SuiteReport | None:
        """Compare the near tests without and with `diff`; None if there are none, or no result.

        The repository's own test command runs them; there is no result if it cannot run a part of
        the tests. With the edit, only tests run that pass without it in time.
        """
        report = await self._compare(diff)
        if report:
            await self._store.save(self._key(diff), report)
        return report

    async def load(self, diff: str) -> SuiteReport | None:
        """What `compare` found for `diff` earlier in this run, if anything; runs nothing."""
        return await self._store.load(self._key(diff), SuiteReport)

    def _key(self, diff: str) -> str:
        options = self._options
        command = "\0".join(options.test_command)
        parts = (diff, command, "\0".join(options.exclude), f"{options.nearby_seconds:g}")
        text = "\0\0".join(parts).encode("utf-8", "surrogatepass")
        return f"near/{hashlib.sha256(text).hexdigest()[:32]}"

    async def _compare(self, diff: str) -> SuiteReport | None:
        for runner in await self._find_runners():
            files = await self.find_files(diff, runner)
            for some in dict.fromkeys((files, files[:FEWER])) if files else ():
                wanted = RequestedTests(files=some)
                base = await runner.run("", wanted)
                if base.suite.passed:
                    self.whole_seconds[diff] = self._estimate_whole(base)
                    return await self._build_report(runner, base, diff, wanted)
                if base.ended:
                    break  # it did not lack time
        return None

    async def find_files(self, diff: str, runner: TestRunner) -> tuple[str, ...]:
        """Find the near files that `runner` can run separately and start, nearest first."""
        command = runner.command
        files = await self._files.find(diff, lambda paths: command.collects(command.covers(paths)))
        return await find_startable(runner, tuple(files))

    async def run_files(self, diff: str, paths: Sequence[str]) -> SuiteRun | None:
        """Run the test files `paths` with `diff`; None if no command can run them."""
        for runner in await self._find_runners():
            if not runner.command.covers(paths):
                continue
            run = await runner.run(diff, RequestedTests(files=tuple(sorted(paths))))
            if run.suite.passed or run.suite.failed:
                return run.suite
        return None

    def _estimate_whole(self, base: TestRun) -> float:
        """The processor seconds of all tests, estimated from the length of their files."""
        execution = base.suite.execution
        used = execution.cpu_seconds if execution.cpu_seconds is not None else execution.seconds
        sizes = self._files.sizes
        begun = {base.files.get(name, "") for name in (*base.suite.passed, *base.suite.failed)}
        part = sum(size for path, size in sizes.items() if path in begun)
        return used * sum(sizes.values()) / part if part else math.inf

    async def _build_report(
        self, runner: TestRunner, base: TestRun, diff: str, wanted: RequestedTests
    ) -> SuiteReport | None:
        names = base.suite.passed
        asked = wanted if base.ended else replace(wanted, tests=names)
        after = await runner.run(diff, asked)
        new = None if base.ended else await self._run_new_tests(runner, diff)
        names = choose_told(names, base, after)
        if after.suite.execution.exit_code is None and not base.ended:
            # Without the edit the run was cut off, too: only tests that began count.
            names = tuple(name for name in names if name in after.files)
        if not names:
            return None
        report = await compare_runs(
            runner, self._codebase, base, after, diff=diff, names=names, repeats=1
        )
        if new:
            report = replace(report, after=_add_run(report.after, new))
        many, told = len(wanted.files or ()), len({base.files.get(name) for name in names})
        files = "the test file" if many == 1 else f"the {many} test files"
        if not base.ended and told < many:  # its time did not allow the others
            files = f"{told} of {files}"
        which = "those" if base.ended else "as many as the time allowed"
        return replace(report, chosen=f"{which} in {files} nearest to the edit")

    async def _run_new_tests(self, runner: TestRunner, diff: str) -> SuiteRun | None:
        """Run the tests that `diff` brings: in a choice by name of others they do not run."""
        try:
            patched = await read_patched(self._codebase, diff)
        except GitFailed:
            return None
        named: dict[str, tuple[str, ...]] = {}
        for path, file in patched.items():
            if file is not None and _may_test(path) and runner.command.covers([path]):
                text = file.content.decode("utf-8", "replace")
                # Without the class: others may inherit the test.
                if names := find_added_tests(diff, path, text):
                    named[path] = names
        if not named:
            return None
        run = await runner.run(diff, RequestedTests(files=tuple(sorted(named)), named=named))
        # A runner that takes files alone runs the other tests, too.
        new = {test for test, path in run.files.items() if is_named(test, path, named)}
        return replace(
            run.suite,
            passed=tuple(name for name in run.suite.passed if name in new),
            failed=tuple(name for name in run.suite.failed if name in new),
        )

    async def _find_runners(self) -> list[TestRunner]:
        async with self._lock:
            if self._runners is None:
                commands = await find_commands(self._codebase, self._options.test_command)
                self._runners = [
                    TestRunner(
                        command,
                        sandbox=self._sandbox,
                        store=self._store,
                        seconds=self._options.nearby_seconds,
                    )
                    for command in commands
                    if command.kind != "other"
                ]
            return self._runners


def _may_test(path: str) -> bool:
    """A file that is named to a runner runs whatever the repository calls its tests."""
    return path.endswith(".py") and is_test(path)


def _add_run(suite: SuiteRun, new: SuiteRun) -> SuiteRun:
    """Add the results of the run of `new` tests; if some fail, its output is the one to show."""
    failed = {*suite.failed, *new.failed}
    return replace(
        suite,
        execution=new.execution if new.failed else suite.execution,
        passed=tuple(sorted({*suite.passed, *new.passed} - failed)),
        failed=tuple(sorted(failed)),
    )


async def find_startable(runner: TestRunner, files: tuple[str, ...]) -> tuple[str, ...]:
    """Leave out the `files` with which the runner does not even start, found by halving.

    One file stops all: pytest ends at a `conftest.py` that cannot be imported, Django's runner at
    a folder whose database is not there.
    """
    left = MOST_FALSE_STARTS

    async def find(some: tuple[str, ...]) -> tuple[str, ...]:
        nonlocal left
        if not some or not left:
            return ()
        run = await runner.run("", RequestedTests(files=some))
        if not (run.problem and run.ended):
            return some
        left -= 1
        half = len(some) // 2
        return (*await find(some[:half]), *await find(some[half:])) if half else ()

    return await find(files)
