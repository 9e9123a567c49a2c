"""Decides whether the end of a test runner is meaningful."""

from __future__ import annotations

import re

from pipeline.regression.junit import Outcomes

_PYTEST_ENDS = {
    3: "pytest itself failed (INTERNALERROR)",
    4: "pytest could not start",
    5: "pytest collected no tests",
}
"""https://docs.pytest.org/en/stable/reference/exit-codes.html"""
_RAN = re.compile(r"^Ran (\d{1,9}) tests? in ", re.MULTILINE)
_LEFT_OUT = re.compile(r"\b(?:skipped|expected failures)=(\d{1,9})\b")
_SUMMARY = "short test summary info"
_MOST_QUOTED = 300


def explain_end(kind: str, code: int | None, output: str, recorded: Outcomes) -> str:
    """Explain in a sentence why a run by `pytest` or a script has no result; empty if it may have
    one.

    `code`: the exit code; None if it was killed or ended by a signal. Results of single tests
    before that count, unless the runner itself failed.
    """
    if kind == "pytest":
        if code in _PYTEST_ENDS:
            return f"{_PYTEST_ENDS[code]}: {_last_words(output)}"
        return ""
    if kind in ("labels", "unittest") and code is not None and not _RAN.search(output):
        if not recorded.passed and not recorded.failed:
            return f"The test runner ended before it ran a test: {_last_words(output)}"
        return f"The test runner broke down before its end: {_last_words(output)}"
    return ""


def is_whole(output: str, counted: int) -> bool:
    """Whether unittest's own count equals the number of tests parsed from its output; pytest's
    summary is compared when it is parsed."""
    if _SUMMARY in output:
        return True
    ran = _RAN.findall(output)
    left_out = _LEFT_OUT.findall(output[-2000:].rpartition("\nRan ")[2])
    return len(ran) == 1 and counted + sum(map(int, left_out)) >= int(ran[0])


def _last_words(output: str) -> str:
    """The last meaningful line; for pytest, the first that names an error."""
    lines = [line.strip() for line in output.split("\n") if line.strip(" =-_")]
    errors = [line for line in lines if re.match(r"(?:E  |ERROR|INTERNALERROR>\s+\w*Error)", line)]
    chosen = (errors or lines)[-1:] or ["it printed nothing"]
    return chosen[0][:_MOST_QUOTED]
