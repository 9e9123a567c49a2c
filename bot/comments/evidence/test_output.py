"""What matters in the output of a test runner: the error itself, the first failure, the summary."""

from __future__ import annotations

import re

from prompts import strip_ansi

_PYTEST_ERROR = re.compile(r"^E {3,}(\S.*)$", re.M)
_PYTHON_ERROR = re.compile(
    r"^((?:[A-Za-z_][\w.]*\.)?[A-Z]\w*(?:Error|Exception|Exit|Warning)\b.*)$", re.M
)
_RUNNER_ERROR = re.compile(r"^(?:ERROR|FAILED|assert)\b.*$", re.M)
_FAILURE = re.compile(r"^(?:_{3,} .+ _{3,}|(?:FAIL|ERROR): .+)$", re.M)
_SUMMARY = re.compile(
    r"^(?:=+ (?:short test summary info|\d+ \w++.*) =+|-{20,}\nRan \d+ tests?\b.*)$", re.M
)
_COUNTS = re.compile(
    r"^(?:=+ )?((?:\d+ (?:passed|failed|errors?|skipped|xfailed|xpassed|deselected|warnings?)"
    r"(?:, )?)+(?: in [\d.]+ ?s)?)",
    re.M,
)
_UNITTEST_COUNT = re.compile(r"^Ran (\d+ tests?)\b.*\n", re.M)
_UNITTEST_END = re.compile(r"^((?:OK|FAILED)\b.*)$", re.M)
"""Searched one after the other: one pattern for both takes quadratic time."""
_PROGRESS = re.compile(r"(?:(?:\S{1,300} )?[.FEsxXuR]+ +)?\[ *\d{1,3}%\]|[.FEsxXu]{20,}")
_DETAILS = re.compile(r"=+ (?:FAILURES|ERRORS) =+|(?:FAIL|ERROR): .+")
"""From here on, what looks like progress is what a test printed, and may be its evidence."""
_PASSED_ENDS = (" PASSED", " ok")
"""How pytest, and unittest and SymPy's runner, end the line of a test that passed."""
_UNITTEST_NAME = re.compile(r"test\w{0,300} \([\w.<>]{1,600}\)")
_MOST_PASSED = 20


def find_error(output: str) -> str:
    """The line that says what went wrong first; the last line when none does, or nothing.

    Understands pytest and Python's tracebacks. Untrusted.
    """
    text = strip_ansi(output)
    for pattern in (_PYTEST_ERROR, _PYTHON_ERROR, _RUNNER_ERROR):
        if found := pattern.search(text):
            return (found[1] if found.groups() else found[0]).strip()
    return next((line.strip() for line in reversed(text.splitlines()) if line.strip()), "")


def find_counts(output: str) -> str:
    """How many tests ended how, as in `1 failed, 2 passed`; empty when the output does not say."""
    text = strip_ansi(output)
    if pytest := _COUNTS.findall(text):
        return re.sub(r" in [\d.]+ ?s$", "", str(pytest[-1])).strip(", ")
    if (count := _UNITTEST_COUNT.search(text)) and (end := _UNITTEST_END.search(text, count.end())):
        return f"{count[1]}, {end[1]}"
    return ""


def drop_progress(output: str) -> str:
    """The output without the lines in which a runner shows a character for each test, and without
    the lines of single tests that passed if these are many."""
    lines = output.split("\n")
    texts = [strip_ansi(line).strip() for line in lines]
    passed = {at for at, text in enumerate(texts) if _shows_pass(text)}
    dropped = passed if len(passed) > _MOST_PASSED else set[int]()
    # unittest prints the name of a test that has a docstring on the line before its result.
    dropped |= {at - 1 for at in dropped if at and _UNITTEST_NAME.fullmatch(texts[at - 1])}
    end = next((at for at, text in enumerate(texts) if _DETAILS.fullmatch(text)), len(texts))
    dropped |= {at for at, text in enumerate(texts[:end]) if _PROGRESS.fullmatch(text)}
    return "\n".join(line for at, line in enumerate(lines) if at not in dropped)


def _shows_pass(line: str) -> bool:
    return line.partition("  ")[0].endswith(_PASSED_ENDS) and (
        line.startswith("test") or "::" in line or line.endswith(" ... ok")
    )


def shorten_failures(output: str) -> str:
    """The first failure and the summary; the whole output when it holds one failure or none."""
    text = strip_ansi(output).replace("\r\n", "\n")
    failures = list(_FAILURE.finditer(text))
    if len(failures) < 2:
        return output
    first, second = failures[0].start(), failures[1].start()
    summary = _SUMMARY.search(text, second)
    left = len(failures) - 1
    note = f"[... {left} more {'failure' if left == 1 else 'failures'} left out ...]"
    rest = text[summary.start() :] if summary else ""
    return "\n".join(filter(None, (text[first:second].rstrip("=\n"), note, rest.rstrip())))
