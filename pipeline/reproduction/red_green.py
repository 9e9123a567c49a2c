"""Runs one test without and with the edit; how it is run here."""

from __future__ import annotations

import re
import shlex
from collections.abc import Sequence
from pathlib import PurePosixPath
from typing import Literal

from pipeline.codebase.commit import Codebase
from pipeline.codebase.unified_diff import list_paths, parse_diff, remove_files
from pipeline.concurrency import gather_two
from pipeline.data.types import Reproduction, Rung
from pipeline.languages.conventions import Conventions
from pipeline.languages.registry import find_runner, language_of
from pipeline.languages.test_command import to_label
from pipeline.regression.command import find_commands
from pipeline.resources import Workspace
from prompts.text import strip_ansi
from sandbox.errors import PatchRejected
from sandbox.frozen import Frozen
from sandbox.program import Ending, Execution

RunnerKind = Literal["pytest", "unittest", "django", "files"]
"""`django` takes dotted labels, `files` is a script of the repository that takes paths."""

QUIET = ("-q", "-p", "no:cacheprovider")
"""pytest's options in the sandbox alone; a person does without them."""
SERIAL = ("--parallel", "1")
"""The same for Django's own runner: one process, whose results can be recorded."""
_PROBE = """import unittest


class ProbeTest(unittest.TestCase):
    def test_probe(self):
        self.assertTrue(True)


def test_probe():
    assert True
"""
"""A file for every runner, to find out whether the runner starts at all."""
_PASSED = re.compile(r"\b[1-9]\d* passed\b")
_RAN = re.compile(r"^Ran (\d{1,9}) tests?\b", re.MULTILINE)
_SKIPPED = re.compile(r"^OK \(.*?skipped=(\d{1,9})\b", re.MULTILINE)


class FileRunner(Frozen):
    """One way to run one test file."""

    kind: RunnerKind
    argv: tuple[str, ...]
    """The command without the file."""
    root: str = ""
    """The folder to which labels are relative, without a trailing slash; empty: the root."""

    @property
    def style(self) -> Literal["pytest", "unittest"]:
        """The framework for which a test file must be written."""
        return "unittest" if self.kind in ("unittest", "django") else "pytest"

    def command(self, path: str, names: Sequence[str] = ()) -> tuple[str, ...] | None:
        """The command that runs the test file `path`, or only its tests `names`; None if
        impossible."""
        if self.kind != "django":
            return (*self.argv, *select_tests(self.kind, names), path)
        label = to_label(path, self.root)
        return (*self.argv, *select_tests(self.kind, names), label) if label else None

    def has_passing_test(self, output: str) -> bool:
        """Whether at least one test passed, according to the runner's output."""
        if self.style == "pytest":
            return bool(_PASSED.search(output))
        counts, skipped = _RAN.findall(output), _SKIPPED.findall(output)
        return bool(counts) and int(counts[-1]) > (int(skipped[-1]) if skipped else 0)


def select_tests(kind: RunnerKind, names: Sequence[str]) -> tuple[str, ...]:
    """The options by which a runner runs only the tests `names`; none for no names."""
    if kind == "pytest":
        return ("-k", " or ".join(names)) if names else ()
    return tuple(word for name in names for word in ("-k", name))


def probe_text() -> str:
    """A test file that passes under every runner."""
    return _PROBE


async def find_file_runners(
    codebase: Codebase, conventions: Conventions, configured: Sequence[str] = ()
) -> tuple[FileRunner, ...]:
    """Find the ways to run one file of tests, the repository's own first."""
    found: list[FileRunner] = []
    for command in await find_commands(codebase, configured):
        argv = command.argv
        at = find_runner(argv)
        if command.kind == "labels":
            serial = SERIAL if argv[-1].endswith("runtests.py") else ()
            found.append(FileRunner(kind="django", argv=(*argv, *serial), root=command.folder))
        elif command.kind == "files":
            found.append(FileRunner(kind="files", argv=argv))
        elif at is not None and command.kind == "pytest" and command.source == "configuration":
            found.append(FileRunner(kind="pytest", argv=(*argv[: at + 1], *QUIET)))
    if conventions.runner == "pytest":
        pytest = ("python", "-m", "pytest", *QUIET)
        # The repository's own options may be what its tests need, or need something missing here.
        found.append(FileRunner(kind="pytest", argv=pytest))
        found.append(FileRunner(kind="pytest", argv=(*pytest, "-o", "addopts=")))
    found.append(FileRunner(kind="unittest", argv=("python", "-m", "unittest", "-v")))
    return tuple(dict.fromkeys(found))


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


_UNITTEST_LINE = re.compile(r"^(test\w*) \(([\w.]+)\)", re.MULTILINE)
"""A test in the output of unittest, with the class, and since Python 3.11 its name, in brackets."""
_MOST_NAMED = 5
"""Of more tests than these, the command names the file alone."""


def advise_command(test: Reproduction) -> str:
    """The command as one types it in a shell: without the options that only the sandbox needs, and
    naming the new tests where their file holds others."""
    words = _drop_options(test.command)
    at = find_runner(words)
    names = _find_names(test)
    if "-k" in words or not 1 <= len(names) <= _MOST_NAMED:
        return shlex.join(words)
    if at is None:
        return shlex.join(_name_labels(words, names, test.before.output))
    kind = "unittest" if words[at] == "unittest" else "pytest"
    return shlex.join([*words[:-1], *select_tests(kind, names), words[-1]])


def _name_labels(words: list[str], names: Sequence[str], output: str) -> list[str]:
    """The command with the label of each new test that ran, as Django's runners take them; as it is
    where `output` does not tell these. A test may stand in a class that only others inherit."""
    label = words[-1]
    found = [
        match[2].removesuffix(f".{match[1]}") + f".{match[1]}"
        for match in _UNITTEST_LINE.finditer(strip_ansi(output))
        if match[1] in names and match[2].startswith(f"{label}.")
    ]
    labels = list(dict.fromkeys(found))
    return [*words[:-1], *labels] if 1 <= len(labels) <= _MOST_NAMED else words


def show_command(command: Sequence[str]) -> str:
    """A command that ran a test, as one types it: without the options of the sandbox alone."""
    return shlex.join(_drop_options(command))


def _drop_options(command: Sequence[str]) -> list[str]:
    for options in (QUIET, SERIAL):
        size = len(options)
        for at in range(len(command)):
            if tuple(command[at : at + size]) == options:
                return [*command[:at], *command[at + size :]]
    return list(command)


def _find_names(test: Reproduction) -> tuple[str, ...]:
    """The tests that are added to a file that was there before."""
    files = [file for file in parse_diff(test.diff) if file.new == test.path]
    if not test.is_committed or not any(file.old for file in files):
        return ()
    return language_of(test.path).find_added_tests(test.diff, test.path, test.text)
