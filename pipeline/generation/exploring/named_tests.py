"""Runs tests of the repository that a model names, through the recorder of their outcomes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from pipeline.codebase.commit import Codebase
from pipeline.codebase.text import pluralize
from pipeline.edits.unified_diff import list_paths
from pipeline.options import Options
from pipeline.regression.command import find_commands
from pipeline.regression.runner import RequestedTests, TestRunner
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


@dataclass(frozen=True)
class NamedTests:
    """Runs the files of tests that a reply names, with the repository's own command."""

    codebase: Codebase
    sandbox: Sandbox
    store: Store
    options: Options

    def parse(self, body: str, diff: str) -> tuple[str, ...] | Malformed:
        """The files that a reply names, one a line, each perhaps with `::` and a test."""
        known = {*self.codebase.files, *list_paths(diff)}
        names = list(dict.fromkeys(line.strip() for line in body.splitlines() if line.strip()))
        missing = [name for name in names if name.partition("::")[0] not in known]
        if missing:
            return Malformed(
                f"There is no file {missing[0].partition('::')[0]!r}. Name files of tests by their "
                "paths from the root, one a line."
            )
        if not 1 <= len(names) <= MOST_FILES:
            return Malformed(f"Name between 1 and {MOST_FILES} files of tests, one a line.")
        return tuple(names)

    async def run(self, names: tuple[str, ...], diff: str) -> NamedTestRun | None:
        """The outcomes; None if no command can run single files of tests here.

        Raises:
            PatchRejected, SandboxUnavailable: as `Sandbox.run`.
        """
        files = tuple(dict.fromkeys(name.partition("::")[0] for name in names))
        for command in await find_commands(self.codebase, self.options.test_command):
            if command.kind == "other" or not (covered := command.covers(files)):
                continue
            runner = TestRunner(
                command, sandbox=self.sandbox, store=self.store,
                seconds=self.options.execution_seconds,
            )  # fmt: skip
            found = await runner.run(diff, RequestedTests(files=covered))
            passed = _pick(found.suite.passed, names)
            failed = _pick(found.suite.failed, names)
            summary = f"{pluralize(len(passed), 'test')} passed, {len(failed)} failed."
            if found.problem:
                summary = f"{summary} {found.problem}"
            return NamedTestRun(summary, failed[:_MOST_NAMED], found.suite.execution)
        return None


def _pick(tests: tuple[str, ...], names: tuple[str, ...]) -> tuple[str, ...]:
    """Those of `tests` that `names` ask for; a name without `::` asks for its whole file."""
    wanted = [name.rpartition("::")[2] for name in names]
    if any("::" not in name for name in names):
        return tests
    return tuple(test for test in tests if any(word in test for word in wanted))
