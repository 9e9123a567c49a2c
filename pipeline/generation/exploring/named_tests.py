"""Runs tests of the repository that a model names, through the recorder of their outcomes."""

from __future__ import annotations

from collections.abc import Container, Mapping
from dataclasses import dataclass
from typing import NamedTuple

from pipeline.codebase.commit import Codebase
from pipeline.codebase.text import pluralize
from pipeline.edits.unified_diff import list_paths
from pipeline.options import Options
from pipeline.regression.command import RequestedTests, find_commands
from pipeline.regression.guest.record import is_named
from pipeline.regression.results import TestRun
from pipeline.regression.runner import TestRunner
from pipeline.replies import Malformed
from pipeline.store import Store
from sandbox.base import Execution, Sandbox

MOST_FILES = 20
_MOST_NAMED = 30


class NamedTestRun(NamedTuple):
    """The outcomes of named tests with the edit so far."""

    summary: str
    failed: tuple[str, ...]
    execution: Execution


def parse_test_names(body: str, paths: Container[str]) -> tuple[str, ...] | Malformed:
    """Parse lines of `PATH` or `PATH::TEST`; each path must be one of `paths`."""
    names = list(dict.fromkeys(line.strip() for line in body.splitlines() if line.strip()))
    missing = next((path for name in names if (path := name.partition("::")[0]) not in paths), None)
    if missing is not None:
        return Malformed(
            f"Nothing was run: there is no file {missing[:200]!r}. Name files of tests by their "
            "paths from the root, one a line."
        )
    if not 1 <= len(names) <= MOST_FILES:
        return Malformed(f"Name between 1 and {MOST_FILES} files of tests, one a line.")
    return tuple(names)


@dataclass(frozen=True)
class NamedTests:
    """Runs the tests that a reply names, with the repository's own command."""

    codebase: Codebase
    sandbox: Sandbox
    store: Store
    options: Options

    def parse(self, body: str, diff: str) -> tuple[str, ...] | Malformed:
        """The files that a reply names, with the edit so far; each perhaps with `::` and a test."""
        return parse_test_names(body, {*self.codebase.files, *list_paths(diff)})

    async def run(self, names: tuple[str, ...], diff: str) -> NamedTestRun | None:
        """The outcomes; None if no command can run single files of tests here.

        Raises:
            PatchRejected, SandboxUnavailable: as `Sandbox.run`.
        """
        named = _by_file(names)
        for command in await find_commands(self.codebase, self.options.test_command):
            if command.kind == "other" or not (covered := command.covers(tuple(named))):
                continue
            runner = TestRunner(
                command, sandbox=self.sandbox, store=self.store,
                seconds=self.options.execution_seconds,
            )  # fmt: skip
            found = await runner.run(diff, RequestedTests(files=covered, named=named))
            suite = found.suite
            passed, failed, skipped, offline = (
                [test for test in tests if _is_asked(test, found, named)]
                for tests in (suite.passed, suite.failed, suite.skipped, suite.offline)
            )
            summary = f"{pluralize(len(passed), 'test')} passed, {len(failed)} failed"
            summary += f", {len(skipped)} skipped or expected to fail" if skipped else ""
            summary += f", {len(offline)} failed for want of a network" if offline else ""
            summary += "."
            if found.problem:
                summary = f"{summary} {found.problem}"
            return NamedTestRun(summary, tuple(failed[:_MOST_NAMED]), suite.execution)
        return None


def _is_asked(test: str, run: TestRun, named: Mapping[str, tuple[str, ...]]) -> bool:
    """Some runners run whole files. What has no file is no test: a file that cannot be imported."""
    return test not in run.files or is_named(test, run.files[test], named)


def _by_file(names: tuple[str, ...]) -> dict[str, tuple[str, ...]]:
    """The tests that are asked for by their files; none where the whole file is."""
    found: dict[str, tuple[str, ...]] = {}
    for name in names:
        path, _, test = name.partition("::")
        before = found.get(path)
        found[path] = (*(before or ()), test) if test and before != () else ()
    return found
