"""The command by which a maintainer runs a reproduction test."""

from __future__ import annotations

import shlex
from collections.abc import Sequence

from pipeline.edits.unified_diff import parse_diff
from pipeline.regression.command import find_runner
from pipeline.reproduction.added_tests import find_added_tests
from pipeline.reproduction.runners import QUIET, select_tests
from pipeline.types import Reproduction

_MOST_NAMED = 5
"""Of more tests than these, the command names the file alone."""


def advise_command(test: Reproduction) -> str:
    """The command as one types it in a shell: without the options that only the sandbox needs, and
    naming the new tests where their file holds others."""
    words = _drop_options(test.command)
    at = find_runner(words)
    names = _find_names(test)
    if at is None or "-k" in words or not 1 <= len(names) <= _MOST_NAMED:
        return shlex.join(words)
    kind = "unittest" if words[at] == "unittest" else "pytest"
    return shlex.join([*words[:-1], *select_tests(kind, names), words[-1]])


def show_command(command: Sequence[str]) -> str:
    """A command that ran a test, as one types it: without the options of the sandbox alone."""
    return shlex.join(_drop_options(command))


def _drop_options(command: Sequence[str]) -> list[str]:
    size = len(QUIET)
    for at in range(len(command)):
        if tuple(command[at : at + size]) == QUIET:
            return [*command[:at], *command[at + size :]]
    return list(command)


def _find_names(test: Reproduction) -> tuple[str, ...]:
    """The tests that are added to a file that was there before."""
    files = [file for file in parse_diff(test.diff) if file.new == test.path]
    if not test.is_committed or not any(file.old for file in files):
        return ()
    return find_added_tests(test.diff, test.path, test.text)
