"""The names and outcomes that pytest (`-rA`) and unittest (`-v`) print.

Parses line by line in linear time, because the output is untrusted.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from pipeline.regression.guest.record import stable_name

_LINE = 1000
"""Characters read of a line: no name is longer, but a program's output may be."""
_HEADER = "short test summary info"
_KINDS = frozenset({"PASSED", "FAILED", "ERROR", "XPASS", "XFAIL"})
_COUNT = re.compile(r"\b(\d+) passed\b")
_NAME = re.compile(r"^\w+ \([\w.<>]+\)")
_DOTS = " ... "
_RESULTS = ("ok", "FAIL", "ERROR", "expected failure", "unexpected success")


def parse_console_output(output: str) -> tuple[set[str], set[str]]:
    """The names of passed and of failed tests.

    Both are empty if the output names fewer passed tests than it counts: then part of it is
    missing, and a missing name must not count as a broken test.
    """
    passed: set[str] = set()
    failed: set[str] = set()
    output = "\n".join(line[:_LINE] for line in output.split("\n"))
    _, header, summary = output.rpartition(_HEADER)
    if header:
        rows = list(_list_pytest_rows(summary))
        ok = [name for kind, name in rows if kind == "PASSED"]
        counted = _COUNT.findall(summary)
        if counted and int(counted[-1]) > len(ok):
            return set(), set()
        passed = {stable_name(name) for name in ok}
        failed = {stable_name(n.split(" - ")[0]) for kind, n in rows if kind in ("FAILED", "ERROR")}
    else:
        for name, result in _list_unittest_rows(output.split("\n")):
            if result != "expected failure":
                (passed if result == "ok" else failed).add(stable_name(name))
    return passed, failed


def _list_pytest_rows(summary: str) -> Iterator[tuple[str, str]]:
    """Rows such as `PASSED tests/test_x.py::test_y`: the outcome and the name."""
    for line in summary.split("\n"):
        kind, _, name = line.partition(" ")
        if kind in _KINDS and name[:1].strip():
            yield kind, name.rstrip()


def _list_unittest_rows(lines: Sequence[str]) -> Iterator[tuple[str, str]]:
    """Rows such as `test_x (module.Class) ... ok`, with an optional description line before the
    dots."""
    for line, after in zip(lines, [*lines[1:], ""], strict=True):
        name = _NAME.match(line)
        if name is None:
            continue
        rest = line[name.end() :]
        if not rest and not _NAME.match(after):
            _, dots, rest = after.partition(_DOTS)
            rest = dots + rest
        if rest.startswith(_DOTS) and (result := _find_result(rest[len(_DOTS) :])):
            yield name[0], result


def _find_result(said: str) -> str:
    """The outcome at the end of the text after the dots: a test may print before it."""
    for result in _RESULTS:
        before = said.removesuffix(result)
        if before != said and (not before or not (before[-1].isalnum() or before[-1] == "_")):
            return result
    return ""
