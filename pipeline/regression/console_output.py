"""The names and outcomes that pytest (`-rA`) and unittest (`-v`) print."""

from __future__ import annotations

import re

from pipeline.regression.guest.record import stable_name

_LINE = 1000
"""Characters of a line that are read: no name is longer, but what a program prints may be."""
_HEADER = "short test summary info"
_PYTEST = re.compile(r"^(PASSED|FAILED|ERROR|XPASS|XFAIL) (\S.*?)\s*$", re.MULTILINE)
_COUNT = re.compile(r"\b(\d+) passed\b")
_UNITTEST = re.compile(
    r"^(\w+ \([\w.<>]+\))(?:\n(?!\w+ \([\w.<>]+\)).*)?? \.\.\. "
    r"(?:.*[^\w])?(ok|FAIL|ERROR|expected failure|unexpected success)$",
    re.MULTILINE,
)


def parse_console_output(output: str) -> tuple[set[str], set[str]]:
    """The names of passed and of failed tests.

    Both empty when the output names fewer passed tests than it counts: part of it is missing, and
    a name that is not there must not be taken for a test that broke.
    """
    passed: set[str] = set()
    failed: set[str] = set()
    output = "\n".join(line[:_LINE] for line in output.split("\n"))
    _, header, summary = output.rpartition(_HEADER)
    if header:
        rows = [(kind, name) for kind, name in _PYTEST.findall(summary)]
        ok = [name for kind, name in rows if kind == "PASSED"]
        counted = _COUNT.findall(summary)
        if counted and int(counted[-1]) > len(ok):
            return set(), set()
        passed = {stable_name(name) for name in ok}
        failed = {stable_name(n.split(" - ")[0]) for kind, n in rows if kind in ("FAILED", "ERROR")}
    else:
        for name, result in _UNITTEST.findall(output):
            good = result in ("ok", "expected failure")
            (passed if good else failed).add(stable_name(name))
    return passed, failed
