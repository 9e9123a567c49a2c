"""The repository's own tests on edits: learnt once without any, then those that matter on each."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from pipeline.codebase.commit import Codebase
from pipeline.codebase.conventions import is_test
from pipeline.codebase.text import decode_text
from pipeline.concurrency import gather_bounded
from pipeline.options import Options
from pipeline.regression.command import NO_COMMAND, find_commands
from pipeline.regression.compare import REPEATS, compare_runs
from pipeline.regression.imports import CodeScan, ImportGraph, scan_code
from pipeline.regression.runner import RequestedTests, TestRun, TestRunner
from pipeline.regression.select_tests import ChosenTests, choose_tests
from pipeline.regression.touched import TouchedCode, find_touched
from pipeline.store import Store
from pipeline.types import SuiteReport, SuiteRun, replace
from sandbox.base import Ending, Sandbox

CONCURRENT_EDITS = 2
"""Edits whose tests run at once; the tests of one may themselves run side by side."""
OUT_OF_TIME = "those that began before the time ran out with the edit"
_MOST_FILES = 5000
"""Python files that are read for their imports."""


class RegressionSuite:
    """One repository's tests in one sandbox. Every run is saved, so none is done twice."""

    def __init__(
        self, codebase: Codebase, sandbox: Sandbox, store: Store, options: Options
    ) -> None:
        self._codebase = codebase
        self._sandbox = sandbox
        self._store = store
        self._options = options
        self._lock = asyncio.Lock()
        self._known: tuple[TestRunner, TestRun] | None = None
        self._code_scan: CodeScan | None = None
        self._graph = ImportGraph({})
        self.problem = ""
        """Why the suite says nothing about any edit, in a sentence; may quote the configuration."""

    async def find_broken(self, diff: str) -> tuple[str, ...] | None:
        """Names of tests that pass without `diff` and not with it; None: they could not be run."""
        report = await self.compare(diff)
        return report.broken if report else None

    async def compare_all(self, diffs: Sequence[str]) -> list[SuiteReport | None]:
        """`compare` for every one of `diffs`, in their order, a few at a time."""
        return await gather_bounded(CONCURRENT_EDITS, (self.compare(diff) for diff in diffs))

    async def compare(self, diff: str) -> SuiteReport | None:
        """The tests that matter for `diff`, without and with it; None when nothing can be told:
        there are none, or none passes without it (`problem` says which).

        What seems broken is run again (`pipeline.regression.compare`), but not when the time ran
        out with `diff`; then, tests that did not begin are not held against it, unless none did.

        Raises as `Sandbox.run`.
        """
        known = await self._find_base()
        if known is None:
            return None
        runner, base = known
        touched, distances = await self._find_touched(diff)
        base = await self._extend_base(runner, base, distances)
        choice = self._choose_tests(runner, base, touched, distances)
        if not choice.tests:
            return None
        after = await runner.run(diff, _request_for(choice, base))
        late = after.suite.execution.ending is Ending.TIMEOUT
        names = _tests_begun(choice.tests, after) if late else choice.tests
        words = choice.description if len(names) == len(choice.tests) else OUT_OF_TIME
        report = await compare_runs(
            runner, base, after, diff=diff, names=names, repeats=0 if late else REPEATS
        )
        return replace(report, whole=choice.whole, chosen=words)

    def _choose_tests(
        self, runner: TestRunner, base: TestRun, touched: TouchedCode, distances: dict[str, int]
    ) -> ChosenTests:
        """All of them where the command cannot be asked for a part."""
        seconds = float("inf") if runner.command.kind == "other" else runner.seconds
        return choose_tests(base, touched, distances, seconds=seconds)

    async def _find_base(self) -> tuple[TestRunner, TestRun] | None:
        """The first command by which any test passes on the unedited code, and how they went."""
        async with self._lock:
            if self._known or self.problem:
                return self._known
            commands = await find_commands(self._codebase, self._options.test_command)
            self.problem = NO_COMMAND
            for command in commands:
                runner = TestRunner(
                    command,
                    sandbox=self._sandbox,
                    store=self._store,
                    seconds=self._options.suite_seconds,
                )
                base = await runner.run("", RequestedTests(functions=True))
                if base.suite.passed and (base.ended or command.kind != "other"):
                    self.problem, self._known = "", (runner, base)
                    break
                self.problem = _explain_no_pass(command.argv, base)
            return self._known

    async def _find_touched(self, diff: str) -> tuple[TouchedCode, dict[str, int]]:
        async with self._lock:
            if self._code_scan is None:
                self._code_scan = await scan_code(await self._read_texts())
                self._graph = ImportGraph(self._code_scan.imports)
        touched = find_touched(diff, self._code_scan.functions)
        return touched, self._graph.distances(touched.files)

    async def _read_texts(self) -> dict[str, str]:
        named = [path for path, file in self._codebase.files.items() if file.regular]
        python = sorted(path for path in named if path.endswith(".py"))[:_MOST_FILES]
        contents = await self._codebase.read_all(python)
        texts = {path: decode_text(path, data) for path, data in contents.items()}
        return {path: text.text for path, text in texts.items() if text}

    async def _extend_base(
        self, runner: TestRunner, base: TestRun, distances: dict[str, int]
    ) -> TestRun:
        """`base` with the tests near an edit that it did not get to, where it was cut off."""
        if base.ended or not base.per_test or runner.command.kind == "other":
            return base
        reached = {base.files.get(name, "") for name in base.suite.passed}
        near = tuple(sorted(path for path in distances if is_test(path) and path not in reached))
        if not near:
            return base
        more = await runner.run("", RequestedTests(files=near, functions=True))
        return _merge_runs(base, more)


def _request_for(choice: ChosenTests, base: TestRun) -> RequestedTests:
    if not base.per_test or (base.ended and not choice.description):
        return RequestedTests()
    files = {base.files.get(name, "") for name in choice.tests}
    known = None if "" in files else tuple(sorted(files))
    return RequestedTests(tests=tuple(sorted(choice.tests)), files=known)


def _tests_begun(names: Sequence[str], after: TestRun) -> Sequence[str]:
    began = {*after.files, *after.suite.passed, *after.suite.failed}
    return [name for name in names if name in began] or names


def _merge_runs(base: TestRun, more: TestRun) -> TestRun:
    """Both runs as one that keeps the first's clock. Functions are the first's, and the second's
    under their own numbers."""
    shift = len(base.names)
    ran = {place: list(numbers) for place, numbers in base.ran.items()}
    for place, numbers in more.ran.items():
        ran.setdefault(place, []).extend(number + shift for number in numbers)
    failed = {*base.suite.failed, *more.suite.failed}
    passed = {*base.suite.passed, *more.suite.passed} - failed
    suite = SuiteRun(
        execution=base.suite.execution, passed=tuple(sorted(passed)), failed=tuple(sorted(failed))
    )
    return replace(
        base,
        suite=suite,
        files={**base.files, **more.files},
        seconds={**base.seconds, **more.seconds},
        ran=ran,
        names=base.names + more.names,
    )


def _explain_no_pass(argv: Sequence[str], base: TestRun) -> str:
    name = f"`{' '.join(argv)[:300]}`"
    if base.suite.execution.exit_code is None and base.suite.passed:
        return f"Of {name} no part can be run, and the whole did not come to its end."
    how = f"{len(base.suite.failed)} fail" if base.suite.failed else "none could be told apart"
    if base.suite.execution.exit_code is None:
        how = f"it ended by {base.suite.execution.ending.value}"
    return f"No test passes on the code as it is with the command {name}: {how}."
