"""Finds how this repository runs one file of tests: its own runner first, tried with a probe."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Literal

from pipeline.codebase.commit import Codebase
from pipeline.codebase.conventions import Conventions
from pipeline.regression.command import find_commands, find_runner
from pipeline.regression.scripts import to_label
from pipeline.types import Frozen

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
