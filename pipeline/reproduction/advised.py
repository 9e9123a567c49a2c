"""The command by which a maintainer runs a reproduction test."""

from __future__ import annotations

import shlex
from collections.abc import Sequence

from pipeline.edits.added_tests import find_places_of_added_tests
from pipeline.edits.unified_diff import parse_diff
from pipeline.regression.command import find_runner
from pipeline.regression.scripts import to_label
from pipeline.reproduction.runners import QUIET, SERIAL, select_tests
from pipeline.types import Reproduction

_MOST_NAMED = 5
"""Of more tests than these, the command names the file alone."""


def advise_command(test: Reproduction) -> str:
    """The command as one types it in a shell: without the options that only the sandbox needs, and
    naming the new tests where their file holds others."""
    words = _drop_options(test.command)
    at = find_runner(words)
    places = _find_places(test)
    if "-k" in words or not 1 <= len(places) <= _MOST_NAMED:
        return shlex.join(words)
    if at is None:
        # Django's runners take the label of the file, relative to the folder of the tests.
        label = to_label(test.path, "")
        if label is None or not f".{label}".endswith(f".{words[-1]}"):
            return shlex.join(words)
        return shlex.join([*words[:-1], *(f"{words[-1]}.{place}" for place in places)])
    kind = "unittest" if words[at] == "unittest" else "pytest"
    names = dict.fromkeys(place.rpartition(".")[2] for place in places)
    return shlex.join([*words[:-1], *select_tests(kind, tuple(names)), words[-1]])


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


def _find_places(test: Reproduction) -> tuple[str, ...]:
    """The tests that are added to a file that was there before."""
    files = [file for file in parse_diff(test.diff) if file.new == test.path]
    if not test.is_committed or not any(file.old for file in files):
        return ()
    return find_places_of_added_tests(test.diff, test.path, test.text)
