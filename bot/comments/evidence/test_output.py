"""What matters in a test runner's output: the error itself, the first failure, the summary."""

from __future__ import annotations

import re

from prompts.text import strip_ansi

_PYTEST_ERROR = re.compile(r"^E {3,}(\S.*)$", re.M)
_PYTHON_ERROR = re.compile(
    r"^((?:[A-Za-z_][\w.]*\.)?[A-Z]\w*(?:Error|Exception|Exit|Warning)\b.*)$", re.M
)
_RUNNER_ERROR = re.compile(r"^(?:ERROR|FAILED|assert)\b.*$", re.M)
_FAILURE = re.compile(r"^(?:_{3,} .+ _{3,}|(?:FAIL|ERROR): .+)$", re.M)
_SUMMARY = re.compile(
    r"^(?:=+ (?:short test summary info|\d+ \w++.*) =+|-{20,}\nRan \d+ tests?\b.*)$", re.M
)
_SUMMARY_LINE = re.compile(r"^(?:FAILED|ERROR) (.+?)(?: - .*)?$", re.M)
_HEADING_WORDS = re.compile(r"ERROR at (?:setup|teardown) of ")
_SEPARATOR = re.compile(r"^={20,}\n+\Z", re.M)
_COUNTS = re.compile(
    r"^(?:=+ )?((?:\d+ (?:passed|failed|errors?|skipped|xfailed|xpassed|deselected|warnings?)"
    r"(?:, )?)+(?: in [\d.]+ ?s)?)",
    re.M,
)
_UNITTEST_COUNT = re.compile(r"^Ran (\d+ tests?)\b.*\n", re.M)
_UNITTEST_END = re.compile(r"^((?:OK|FAILED)\b.*)$", re.M)
"""Searched one after the other: one pattern for both takes quadratic time."""
_UNITTEST_FAILED = re.compile(r"^FAILED (\([\w =,]{1,200}\))$", re.M)
_PROGRESS = re.compile(r"(?:(?:\S{1,300} )?[.FEsxXuR]+ +)?\[ *\d{1,3}%\]|[.FEsxXu]{20,}")
_SETUP = re.compile(
    r"Testing against Django installed in .+|Importing application \S+"
    r"|(?:Creating|Cloning) test database .+|Skipping setup of unused database.+"
    r"|Operations to perform:|(?:Synchroniz\w+|Apply all) [\w ]+:.*"
    r"|Creating tables?\b.*|Running (?:deferred SQL|migrations)\b.*"
    r"|Installing (?:custom SQL|indexes)\b.*|Applying \S+\.\.\.( OK.*)?"
    r"|System check identified no issues .*"
)
"""What Django's runner prints before the first test: a line for each table and migration."""
_FAILED = re.compile(
    r"(\d{1,9}) (?:failed|errors?)\b|(?<!expected )\b(?:failures|errors)=(\d{1,9})"
)
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
    """The output without a runner's lines about its preparations, without those in which it shows
    a character for each test, and without those of single tests that passed if these are many."""
    lines = output.split("\n")
    texts = [strip_ansi(line).strip() for line in lines]
    passed = {at for at, text in enumerate(texts) if _shows_pass(text)}
    dropped = passed if len(passed) > _MOST_PASSED else set[int]()
    # unittest prints the name of a test that has a docstring on the line before its result.
    dropped |= {at - 1 for at in dropped if at and _UNITTEST_NAME.fullmatch(texts[at - 1])}
    end = next((at for at, text in enumerate(texts) if _DETAILS.fullmatch(text)), len(texts))
    dropped |= {
        at
        for at, text in enumerate(texts[:end])
        if _PROGRESS.fullmatch(text) or _SETUP.fullmatch(text)
    }
    return "\n".join(line for at, line in enumerate(lines) if at not in dropped)


def _shows_pass(line: str) -> bool:
    return line.partition("  ")[0].endswith(_PASSED_ENDS) and (
        line.startswith("test") or "::" in line or line.endswith(" ... ok")
    )


def shorten_failures(output: str) -> str:
    """The first failure and the summary; the whole output when it holds one failure or none."""
    text = strip_ansi(output).replace("\r\n", "\n")
    total = _count_failures(text)
    failures = _find_failures(text, total)
    if len(failures) < 2:
        return output
    first, second = failures[0].start(), failures[1].start()
    left = max(total or len(failures), 2) - 1
    note = f"[... {left} more {'failure' if left == 1 else 'failures'} left out ...]"
    # unittest prints this line before each failure, so that here it belongs to the second.
    failure = _SEPARATOR.sub("", text[first:second]).rstrip("\n")
    return "\n".join(filter(None, (failure, note, _cut_summary(text, second))))


def show_end(output: str) -> str:
    """The summary of a run that passed; the whole output when there is no summary."""
    return _cut_summary(strip_ansi(output).replace("\r\n", "\n")) or output


def _count_failures(text: str) -> int | None:
    """How many tests failed or had errors, by the runner's last line; None if it does not say."""
    ends = [*_COUNTS.finditer(text), *_UNITTEST_FAILED.finditer(text)]
    if not ends:
        return None
    last = max(ends, key=lambda end: end.start())
    return sum(int(pytest or unittest) for pytest, unittest in _FAILED.findall(last[1]))


def _find_failures(text: str, total: int | None) -> list[re.Match[str]]:
    """The headings of the failures. A test may print others, as one does that runs pytest: then
    only those that pytest's summary names."""
    found = list(_FAILURE.finditer(text))
    if total is None or len(found) <= total:
        return found
    summary = text.rpartition(" short test summary info ")[2]
    names = {name.partition("::")[2].replace("::", ".") for name in _SUMMARY_LINE.findall(summary)}
    named = [one for one in found if _HEADING_WORDS.sub("", one[0]).strip("_ ") in names]
    return named or found[:1]


def _cut_summary(text: str, start: int = 0) -> str:
    """The runner's summary at the end of the text, looked for from `start` on; else empty."""
    found = list(_SUMMARY.finditer(text, start))
    named = [one for one in found if "short test summary" in one[0]]
    counts = list(_COUNTS.finditer(text, start))
    last = (named or found or counts)[-1:]
    return text[last[0].start() :].rstrip() if last else ""
