"""Turns reports of test runners into outcomes by name: JUnit, console output, SymPy's script.

Parses line by line in linear time, because the output is untrusted.
"""

import io
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any
from xml.etree.ElementTree import Element, ParseError

from defusedxml.common import DefusedXmlException
from defusedxml.ElementTree import iterparse

from pipeline.languages.test_names import stable_name

MOST_TESTS = 200_000


@dataclass
class Outcomes:
    """The passed and failed tests; a test that did both failed."""

    passed: set[str] = field(default_factory=set[str])
    failed: set[str] = field(default_factory=set[str])
    errors: set[str] = field(default_factory=set[str])
    """Failed tests that ended in an error outside of their own checks."""
    skipped: set[str] = field(default_factory=set[str])
    """Skipped tests and expected failures."""
    seconds: dict[str, float] = field(default_factory=dict[str, float])

    def add(self, name: str, *, good: bool, seconds: float) -> None:
        (self.passed if good else self.failed).add(name)
        self.seconds[name] = self.seconds.get(name, 0.0) + seconds

    def add_all(self, others: "Outcomes", folder: str) -> None:
        """Add the outcomes of a part of the tree, whose `folder` precedes their names."""
        start = f"{folder}/" if folder else ""

        def place(name: str) -> str:
            return stable_name(name if name.startswith(start) else f"{start}{name}")

        for mine, own in (
            (self.passed, others.passed),
            (self.failed, others.failed),
            (self.errors, others.errors),
            (self.skipped, others.skipped),
        ):
            mine.update(map(place, own))
        self.seconds |= {place(name): n for name, n in others.seconds.items()}


_NOTHING = re.compile(
    r"\bno tests? (?:was |were |files? )?(?:found|ran|run|to run|collected|executed|specified)\b"
    r"|\bno tests? (?:(?:is|are) available|defined|match(?:es)?)\b"
    r"|(?<![\d.,])0 (?:tests?|pass(?:ed|ing)|specs?|examples)\b(?! fail)"
    r"|(?:\btests(?: run)?:?|# (?:TOTAL|PASS):) {1,9}0\b(?![.,]\d| fail)|^1\.\.0\b",
    re.IGNORECASE | re.MULTILINE,
)
"""What runners of many languages print where they ran no test."""
_SOME = re.compile(
    r"(?<![\d.,])[1-9]\d{0,8} (?:\w{1,20} )?(?:tests?|passed|passing|fail\w{0,4}|specs?|examples)\b"
    r"|(?:\btests(?: run)?:?|# (?:TOTAL|PASS):) {1,9}[1-9]",
    re.IGNORECASE,
)
"""What they print where they ran some."""


def ran_nothing(output: str) -> bool:
    """Whether runners say that they ran no test; to be asked only where none has a result."""
    text = "\n".join(line[:200] for line in output.split("\n"))
    return bool(_NOTHING.search(text)) and not _SOME.search(text)


_UNPRINTABLE = re.compile(
    rb"[\x00-\x08\x0b\x0c\x0e-\x1f]"
    rb"|&#(?:x0{0,6}(?:[0-8bcefBCEF]|1[0-9a-fA-F])|0{0,6}(?:[0-8]|1[124-9]|2\d|3[01]));"
)
"""What XML cannot hold, and mocha's reporter and others write: one would cost the whole file."""


def parse_junit(documents: Iterable[bytes]) -> Outcomes:
    """Parse the tests of all `documents`; ignore one that is not XML or contains entities.

    A test's name is `classname::name`. The format is described at
    https://github.com/testmoapp/junitxml. Each element is freed once it is read.
    """
    found = Outcomes()
    for document in documents:
        cases = Outcomes()
        try:
            _read_cases(document, cases, MOST_TESTS - len(found.seconds))
        except (ParseError, DefusedXmlException, ValueError, RecursionError):
            continue
        found.passed |= cases.passed
        found.failed |= cases.failed
        found.errors |= cases.errors
        found.skipped |= cases.skipped
        for name, seconds in cases.seconds.items():
            found.seconds[name] = found.seconds.get(name, 0.0) + seconds
    found.passed -= found.failed
    return found


def _read_cases(document: bytes, found: Outcomes, most: int) -> None:
    path: list[Element] = []
    kinds: dict[Element, set[str]] = {}
    events = iterparse(
        io.BytesIO(_UNPRINTABLE.sub(b"?", document)), events=("start", "end"), forbid_dtd=True
    )
    for event, element in events:
        if event == "start":
            path.append(element)
            if len(path) > 50:  # suites in suites take four or five
                raise ValueError("nested too deeply")
            continue
        path.pop()
        if element.tag == "testcase" and len(found.seconds) < most:
            suites = [one.get("name", "")[:100] for one in path if one.tag == "testsuite"]
            _add_case(found, element, kinds.pop(element, set()), " ".join(suites))
        if path:
            if path[-1].tag == "testcase":
                kinds.setdefault(path[-1], set()).add(element.tag)
            path[-1].remove(element)


def _add_case(found: Outcomes, case: Element, kinds: set[str], suites: str) -> None:
    place = case.get("classname") or case.get("file") or ""
    if place == "test":  # for Node's own runner of every test: its suites tell them apart
        place = suites or place
    name = stable_name("::".join(filter(None, (place, case.get("name", "")))))
    status = case.get("status", "")  # CTest's own
    if name and ("skipped" in kinds or status in ("notrun", "disabled")):
        found.skipped.add(name)
    elif name:
        good = not kinds & {"failure", "error"} and status != "fail"
        found.add(name, good=good, seconds=to_seconds(case.get("time", "0").replace(",", "")))
        if "error" in kinds:
            found.errors.add(name)


def to_seconds(stated: Any) -> float:
    """What a report states; 0 for what is no number, and for a day and more, which no run takes:
    the clock was replaced."""
    try:
        seconds = float(stated)
    except (ValueError, TypeError, OverflowError):
        return 0.0
    return seconds if 0 <= seconds < 86_400 else 0.0


_PYTEST_ENDS = {
    3: "pytest itself failed (INTERNALERROR)",
    4: "pytest could not start",
    5: "pytest collected no tests",
}
"""https://docs.pytest.org/en/stable/reference/exit-codes.html"""
_RAN = re.compile(r"^Ran (\d{1,9}) tests? in ", re.MULTILINE)
_LAST_LINE = re.compile(r"^(?:OK|FAILED) \(([^()\n]{1,200})\)$", re.MULTILINE)
_NO_RESULT = re.compile(r"\b(?:skipped|expected failures)=(\d{1,9})\b")
_PYTEST_SUMMARY = "short test summary info"


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
            return f"The test runner stopped before running any test: {_last_words(output)}"
        return f"The test runner crashed before it finished: {_last_words(output)}"
    return ""


def is_whole(output: str, counted: int) -> bool:
    """Whether unittest's own count equals the number of tests parsed from its output; pytest's
    summary is compared when it is parsed."""
    if _PYTEST_SUMMARY in output:
        return True
    ran = _RAN.findall(output)
    last = _LAST_LINE.findall(output[-2000:])[-1:]
    counted += sum(int(number) for line in last for number in _NO_RESULT.findall(line))
    return len(ran) == 1 and counted >= int(ran[0])


def _last_words(output: str) -> str:
    """The last meaningful line; for pytest, the first that names an error."""
    lines = [line.strip() for line in output.split("\n") if line.strip(" =-_")]
    errors = [line for line in lines if re.match(r"(?:E  |ERROR|INTERNALERROR>\s+\w*Error)", line)]
    chosen = (errors or lines)[-1:] or ["it printed nothing"]
    return chosen[0][:300]


_LONGEST_LINE = 1000
"""Characters read of a line: no name is longer, but a program's output may be."""
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
    output = "\n".join(line[:_LONGEST_LINE] for line in output.split("\n"))
    _, header, summary = output.rpartition(_PYTEST_SUMMARY)
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
            # An edit that mends an expected failure must not appear to break a test.
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


_FILE = re.compile(r"(\S{1,400}\.py)\[(\d+|\?)\]")
_FAILED = ("F", "E", "T", "X")
"""Failed, exception, timeout, unexpected pass."""
_ERRORS = ("E", "T")
_SKIPPED = ("f", "s", "w")
"""Expected failure, skipped, left out because it is slow. An expected failure is no result: an edit
that mends it makes it an unexpected pass, and must not appear to break it."""
_ENDS = frozenset(("ok", *_FAILED, *_SKIPPED))
_SUMMARY = re.compile(r"tests finished: (\d{1,9}) passed")


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
        _add_sympy_test(found, name, end)
    passed = len(found.passed)
    found.passed -= found.failed
    return found if cut or passed >= int(counts[0]) else Outcomes()


def _list_ends(output: str, hung: bool) -> Iterator[tuple[str, str]]:
    """Each test with the word for its outcome; a file that cannot be imported counts as one."""
    path = name = ""
    for line in output.split("\n"):
        words = line[:_LONGEST_LINE].split()
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


def _add_sympy_test(found: Outcomes, name: str, end: str) -> None:
    if end in _SKIPPED:
        found.skipped.add(name)
        return
    found.add(name, good=end not in _FAILED, seconds=0.0)
    if end in _ERRORS:
        found.errors.add(name)
