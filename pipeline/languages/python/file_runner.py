"""How one file of Python tests is run, by pytest, unittest or a script of the repository."""

import re
import shlex
from collections.abc import Sequence
from typing import Literal

from pipeline.data.types import Reproduction
from pipeline.languages.conventions import Conventions
from pipeline.languages.file_runner import FileRunner
from pipeline.languages.python.commands import find_runner
from pipeline.languages.test_command import TestCommand, to_label
from prompts.text import strip_ansi
from sandbox.program import Execution

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
"""A file for every runner."""
_PASSED = re.compile(r"\b[1-9]\d* passed\b")
_RAN = re.compile(r"^Ran (\d{1,9}) tests?\b", re.MULTILINE)
_SKIPPED = re.compile(r"^OK \(.*?skipped=(\d{1,9})\b", re.MULTILINE)
NO_TESTS = 5
"""pytest's exit code if it found no test."""
NOT_RUN = frozenset({3, 4, 126, 127})
"""pytest's exit codes for not having run the tests, and a shell's for a missing program."""
_NOT_COLLECTED = re.compile(
    r"error(s)? during collection|ERROR collecting|_FailedTest|Failed to import test module", re.I
)
_UNITTEST_LINE = re.compile(r"^(test\w*) \(([\w.]+)\)", re.MULTILINE)
"""A test in the output of unittest, with the class, and since Python 3.11 its name, in brackets."""
_MOST_NAMED = 5
"""Of more tests than these, the command names the file alone."""


class PythonRunner(FileRunner):
    kind: RunnerKind
    root: str = ""
    """The folder to which labels are relative, without a trailing slash; empty: the root."""

    @property
    def style(self) -> Literal["pytest", "unittest"]:
        return "unittest" if self.kind in ("unittest", "django") else "pytest"

    def write_probe(self, beside: str) -> str:  # noqa: ARG002 - needs no other
        return _PROBE

    def command(self, path: str, names: Sequence[str] = ()) -> tuple[str, ...] | None:
        if self.kind != "django":
            return (*self.argv, *select_tests(self.kind, names), path)
        label = to_label(path, self.root)
        return (*self.argv, *select_tests(self.kind, names), label) if label else None

    def has_passing_test(self, output: str) -> bool:
        output = strip_ansi(output)  # a repository's settings may ask for colours
        if self.style == "pytest":
            return bool(_PASSED.search(output))
        counts, skipped = _RAN.findall(output), _SKIPPED.findall(output)
        return bool(counts) and int(counts[-1]) > (int(skipped[-1]) if skipped else 0)

    def has_no_test(self, run: Execution) -> bool:
        return self.kind == "pytest" and run.exit_code == NO_TESTS

    def was_not_run(self, run: Execution) -> bool:
        return run.exit_code in NOT_RUN

    def has_test_failure(self, run: Execution) -> bool:
        return run.exit_code in (1, 2)

    def is_not_collected(self, run: Execution) -> bool:
        return run.exit_code == 2 or bool(_NOT_COLLECTED.search(strip_ansi(run.output)))


def select_tests(kind: RunnerKind, names: Sequence[str]) -> tuple[str, ...]:
    """The options by which a runner runs only the tests `names`; none for no names."""
    if kind == "pytest":
        return ("-k", " or ".join(names)) if names else ()
    return tuple(word for name in names for word in ("-k", name))


def find_file_runners(
    commands: Sequence[TestCommand], conventions: Conventions
) -> tuple[PythonRunner, ...]:
    """The ways to run one file of tests, the repository's own `commands` first."""
    found: list[PythonRunner] = []
    for command in commands:
        argv = command.argv
        at = find_runner(argv)
        if command.kind == "labels":
            serial = SERIAL if argv[-1].endswith("runtests.py") else ()
            found.append(PythonRunner(kind="django", argv=(*argv, *serial), root=command.folder))
        elif command.kind == "files":
            found.append(PythonRunner(kind="files", argv=argv))
        elif at is not None and command.kind == "pytest" and command.source == "configuration":
            found.append(PythonRunner(kind="pytest", argv=(*argv[: at + 1], *QUIET)))
    if conventions.runner == "pytest":
        pytest = ("python", "-m", "pytest", *QUIET)
        # The repository's own options may be what its tests need, or need something missing here.
        found.append(PythonRunner(kind="pytest", argv=pytest))
        found.append(PythonRunner(kind="pytest", argv=(*pytest, "-o", "addopts=")))
    found.append(PythonRunner(kind="unittest", argv=("python", "-m", "unittest", "-v")))
    return tuple(dict.fromkeys(found))


def advise_command(test: Reproduction, names: Sequence[str]) -> str:
    """See `Language.advise_command`."""
    words = drop_options(test.command)
    at = find_runner(words)
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


def drop_options(command: Sequence[str]) -> list[str]:
    """`command` without the options of the sandbox alone."""
    for options in (QUIET, SERIAL):
        size = len(options)
        for at in range(len(command)):
            if tuple(command[at : at + size]) == options:
                return [*command[:at], *command[at + size :]]
    return list(command)
