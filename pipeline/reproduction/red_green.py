"""Runs one test without and with the edit, and explains what is wrong with it as evidence."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import PurePosixPath

from pipeline.concurrency import gather_two
from pipeline.edits.unified_diff import list_paths, parse_diff, remove_files
from pipeline.reproduction.runners import FileRunner
from pipeline.types import Frozen
from sandbox.base import Ending, Execution, Sandbox
from sandbox.errors import PatchRejected
from sandbox.program import Program

NO_TESTS = 5
"""pytest's exit code if it found no test."""
NOT_RUN = frozenset({3, 4, 126, 127})
"""pytest's exit codes for not having run the tests, and a shell's for a missing program."""
_NOT_COLLECTED = re.compile(
    r"error(s)? during collection|ERROR collecting|_FailedTest|Failed to import test module", re.I
)
_TEST = re.compile(r"^\s*(?:async )?def (test\w*)")
_VARYING = re.compile(r"0x[0-9a-f]+|\b\d+\.\d+ ?s(econds)?\b|/tmp/\S+|\b\d{4,}\b")
"""The differences between two equal runs: addresses, times, temporary paths, process ids."""


class RedGreen(Frozen):
    """A test's two runs."""

    command: tuple[str, ...]
    before: Execution
    """The run with the test alone."""
    after: Execution
    """The run with the test and the edit."""


async def run_red_green(
    sandbox: Sandbox, command: Sequence[str], *, test: str, edit: str, seconds: float
) -> RedGreen:
    """Run `command` with the diff `test`, and with the whole diff `edit` as well.

    If both change a file, the version of `test` wins. Errors of the sandbox propagate.
    """
    rest = remove_files(edit, list_paths(test))
    before, after = await gather_two(
        _run(sandbox, command, (test,), seconds), _run(sandbox, command, (test, rest), seconds)
    )
    return RedGreen(command=tuple(command), before=before, after=after)


async def _run(
    sandbox: Sandbox, command: Sequence[str], diffs: Sequence[str], seconds: float
) -> Execution:
    applied = [diff for diff in diffs if diff]
    try:
        return await sandbox.run(Program(tuple(command), diffs=applied, seconds=seconds))
    except PatchRejected as rejected:  # the edit and the test cannot be combined
        return Execution(exit_code=126, output=str(rejected), seconds=0)


def find_problem(runner: FileRunner, runs: RedGreen) -> str:
    """Why the test shows nothing, as a sentence; empty if it fails before and passes after."""
    before, after = runs.before, runs.after
    if not after.passed:
        if after.exit_code == NO_TESTS and runner.kind == "pytest":
            return "No test in the test file ran."
        if after.exit_code in NOT_RUN:
            return "With the edit the test file could not be run."
        return "The test file does not pass with the edit."
    if not runner.has_passing_test(after.output):
        return "The test file passes with the edit only because no test in it ran."
    if before.exit_code is None:
        return "Without the edit the test file does not end by itself."
    if before.passed:
        return "The test file passes without the edit, so it does not show the issue."
    if before.exit_code not in (1, 2):
        return "Without the edit the test file could not be run."
    return ""


def find_removed_tests(diff: str) -> list[str]:
    """The names of the test functions that `diff` removes without adding them again."""
    lines = [line for file in parse_diff(diff) for hunk in file.hunks for line in hunk.lines]
    found = [(marker, match[1]) for marker, text in lines if (match := _TEST.match(text))]
    kept = {name for marker, name in found if marker == "+"}
    return [name for marker, name in found if marker == "-" and name not in kept]


def is_not_collected(run: Execution) -> bool:
    """Whether the test file could not be imported, as opposed to a failing test in it."""
    return run.exit_code == 2 or bool(_NOT_COLLECTED.search(run.output))


def fails_elsewhere(runs: RedGreen, paths: Sequence[str]) -> bool:
    """Whether the runs fail alike, and outside the test files `paths`: then rewriting cannot
    help."""
    before, after = runs.before, runs.after
    if before.passed or after.passed or before.exit_code != after.exit_code:
        return False
    if before.exit_code == NO_TESTS:  # the file itself holds none
        return False
    if before.exit_code is None or _normalise(before.output) != _normalise(after.output):
        return False
    names = "|".join(re.escape(PurePosixPath(path).name) for path in paths)
    modules = "|".join(re.escape(path.removesuffix(".py").replace("/", ".")) for path in paths)
    place = (
        rf'(?:{names})(?::\d+|", line \d+)|(?:^|\s)(?:ERROR|FAIL): \w+ \((?:\w+\.)*(?:{modules})'
    )
    return not re.search(place, after.output, re.MULTILINE)


def last_line(run: Execution) -> str:
    """The line that most likely says what went wrong."""
    lines = [line.strip() for line in run.output.splitlines() if line.strip()]
    errors = [line for line in lines if re.search(r"\b\w*(Error|Exception|Warning)\b", line)]
    if run.ending is Ending.TIMEOUT:
        return "it did not end in time"
    return (errors or lines or ["it printed nothing"])[-1][:300]


def _normalise(output: str) -> str:
    return _VARYING.sub("", output).strip()
