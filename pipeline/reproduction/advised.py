"""The command by which a maintainer runs a reproduction test."""

from __future__ import annotations

import re
import shlex
from collections.abc import Sequence

from pipeline.edits.added_tests import find_added_tests
from pipeline.edits.unified_diff import parse_diff
from pipeline.regression.command import find_runner
from pipeline.reproduction.runners import QUIET, SERIAL, select_tests
from pipeline.types import Reproduction
from prompts.text import strip_ansi

_RAN = re.compile(r"^(test\w*) \(([\w.]+)\)", re.MULTILINE)
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
        for match in _RAN.finditer(strip_ansi(output))
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
    return find_added_tests(test.diff, test.path, test.text)
