"""Runs one test without and with the edit; how it is run here."""

import re
import shlex
from collections.abc import Sequence
from pathlib import PurePosixPath

from pipeline.codebase.commit import Codebase
from pipeline.codebase.unified_diff import list_paths, parse_diff, remove_files
from pipeline.concurrency import gather_two
from pipeline.data.types import Reproduction, Rung
from pipeline.languages.conventions import Conventions
from pipeline.languages.file_runner import FileRunner
from pipeline.languages.registry import LANGUAGES, find_error, language_of, main_language
from pipeline.regression.command import find_commands
from pipeline.resources import Workspace
from sandbox.errors import PatchRejected
from sandbox.frozen import Frozen
from sandbox.program import Ending, Execution


async def find_file_runners(
    codebase: Codebase, conventions: Conventions, configured: Sequence[str] = ()
) -> tuple[FileRunner, ...]:
    """Find the ways to run one file of tests, the repository's own first."""
    commands = await find_commands(codebase, configured)
    return tuple(main_language(codebase).file_runners(commands, conventions))


_VARYING = re.compile(r"0x[0-9a-f]+|\b\d+\.\d+ ?s(econds)?\b|/tmp/\S+|\b\d{4,}\b")
"""The differences between two equal runs: addresses, times, temporary paths, process ids."""


class RedGreen(Frozen):
    """A test's two runs."""

    command: tuple[str, ...]
    before: Execution
    """The run with the test alone."""
    after: Execution
    """The run with the test and the edit."""

    def show(self, path: str, text: str, diff: str, rung: Rung) -> Reproduction:
        return Reproduction(
            path=path, text=text, diff=diff, command=self.command,
            before=self.before, after=self.after, rung=rung,
        )  # fmt: skip


async def run_red_green(
    space: Workspace, command: Sequence[str], *, test: str, edit: str
) -> RedGreen:
    """Run `command` with the diff `test`, and with the whole diff `edit` as well.

    If both change a file, the version of `test` wins. Errors of the sandbox propagate.
    """
    rest = remove_files(edit, list_paths(test))

    async def run(*diffs: str) -> Execution:
        try:
            return await space.run(command, *diffs)
        except PatchRejected as rejected:  # the edit and the test cannot be combined
            return Execution(exit_code=126, output=str(rejected), seconds=0)

    before, after = await gather_two(run(test), run(test, rest))
    return RedGreen(command=tuple(command), before=before, after=after)


def find_problem(runner: FileRunner, runs: RedGreen) -> str:
    """Why the test shows nothing, as a sentence; empty if it fails before and passes after."""
    before, after = runs.before, runs.after
    if not after.passed:
        if runner.has_no_test(after):
            return "No test in the test file ran."
        if runner.was_not_run(after):
            return "With the edit the test file could not be run."
        return "The test file does not pass with the edit."
    if not runner.has_passing_test(after.output):
        return "The test file passes with the edit only because no test in it ran."
    if before.exit_code is None:
        return "Without the edit the test file does not end by itself."
    if before.passed:
        return "The test file passes without the edit, so it does not show the issue."
    if not runner.has_test_failure(before):
        return "Without the edit the test file could not be run."
    return ""


def fails_elsewhere(runner: FileRunner, runs: RedGreen, paths: Sequence[str]) -> bool:
    """Whether the runs fail alike, and outside the test files `paths`: then rewriting cannot
    help."""
    before, after = runs.before, runs.after
    if before.passed or after.passed or before.exit_code != after.exit_code:
        return False
    if runner.has_no_test(before):
        return False
    if before.exit_code is None or _normalise(before.output) != _normalise(after.output):
        return False
    names = "|".join(re.escape(PurePosixPath(path).name) for path in paths)
    modules = "|".join(
        re.escape(str(PurePosixPath(path).with_suffix("")).replace("/", ".")) for path in paths
    )
    place = (
        rf'(?:{names})(?::\d+|", line \d+)|(?:^|\s)(?:ERROR|FAIL): \w+ \((?:\w+\.)*(?:{modules})'
    )
    return not re.search(place, after.output, re.MULTILINE)


def tell_error(path: str, run: Execution) -> str:
    """What went wrong in a run of the test file `path`, in a line."""
    if run.ending is Ending.TIMEOUT:
        return "it did not end in time"
    return find_error(path, run.output)[:300] or "it printed nothing"


def _normalise(output: str) -> str:
    return _VARYING.sub("", output).strip()


def advise_command(test: Reproduction) -> str:
    """The command as one types it in a shell: without the options that only the sandbox needs, and
    naming the new tests where their file holds others."""
    return language_of(test.path).advise_command(test, _find_names(test))


def show_command(command: Sequence[str]) -> str:
    """A command that ran a test, as one types it: without the options of the sandbox alone."""
    words = list(command)
    for language in LANGUAGES:
        words = language.drop_options(words)
    return shlex.join(words)


def _find_names(test: Reproduction) -> tuple[str, ...]:
    """The tests that are added to a file that was there before."""
    files = [file for file in parse_diff(test.diff) if file.new == test.path]
    if not test.is_committed or not any(file.old for file in files):
        return ()
    return language_of(test.path).find_added_tests(test.diff, test.path, test.text)
