"""Parses the output of SymPy's own test script with `--verbose`: a line per test, below its
file."""

from __future__ import annotations

import re
from collections.abc import Iterator

from pipeline.regression.junit import Outcomes

_FILE = re.compile(r"(\S{1,400}\.py)\[(\d+|\?)\]")
_FAILED = ("F", "E", "T", "X")
"""Failed, exception, timeout, unexpected pass."""
_ERRORS = ("E", "T")
_SKIPPED = ("f", "s", "w")
"""Expected failure, skipped, left out because it is slow. An expected failure is no result: an edit
that mends it makes it an unexpected pass, and must not appear to break it."""
_ENDS = frozenset(("ok", *_FAILED, *_SKIPPED))
_SUMMARY = re.compile(r"tests finished: (\d{1,9}) passed")
_LINE = 1000


def parse_sympy_output(output: str, *, cut: bool = False, hung: bool = False) -> Outcomes:
    """Parse the tests by `path::name`; empty if the script's own count is missing or differs.

    If its time ran out (`cut`) there is no count; the test that it was running has no result, or
    failed if it did nothing until then (`hung`).

    The word after a test's name is its outcome: `ok`, `F`, … (`PyTestReporter` in SymPy's
    `testing/runtests.py`); the test's own output may come between them.
    """
    found = Outcomes()
    counts = _SUMMARY.findall(output)
    if not cut and (len(counts) != 1 or "======" not in output):
        return found
    for name, end in _list_ends(output, hung):
        _add(found, name, end)
    passed = len(found.passed)
    found.passed -= found.failed
    return found if cut or passed >= int(counts[0]) else Outcomes()


def _list_ends(output: str, hung: bool) -> Iterator[tuple[str, str]]:
    """Each test with the word for its outcome; a file that cannot be imported counts as one."""
    path = name = ""
    for line in output.split("\n"):
        words = line[:_LINE].split()
        if not words:
            continue
        if match := _FILE.match(words[0]):
            path, name = match[1], ""
            if match[2] == "?":
                yield path, "E"
        elif words[0].startswith("test_") and path:
            name = f"{path}::{words[0]}"
            words = words[1:]
        ends = [word for word in words[:1] + words[-2:] if word in _ENDS]
        if name and ends:
            yield name, ends[0]
            name = ""
    if hung and name:
        yield name, "T"


def _add(found: Outcomes, name: str, end: str) -> None:
    if end in _SKIPPED:
        found.skipped.add(name)
        return
    found.add(name, good=end not in _FAILED, seconds=0.0)
    if end in _ERRORS:
        found.errors.add(name)
