"""Readers of what other runners than Python's print: results by name, from untrusted text.

Each takes the output and the report files, and reads line by line in linear time.
"""

import io
import json
import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from typing import Any, Final, cast
from xml.etree.ElementTree import ParseError

from defusedxml.common import DefusedXmlException
from defusedxml.ElementTree import iterparse

from pipeline.languages.readers import MOST_TESTS, Outcomes, to_seconds
from pipeline.languages.test_names import stable_name
from sandbox.layout import CHECKOUT

LONGEST_LINE: Final = 1_000_000
Reader = Callable[[str, Sequence[bytes]], Outcomes]


def read_go(output: str, _: Sequence[bytes]) -> Outcomes:
    """`go test -json` (`go doc test2json`): a package that did not build is one failed test.

    Where a test ends the program with 0, go's `ok` for the package is that test's last output, and
    go calls it passed.
    """
    found, ended = Outcomes(), set[str]()
    for row in _list_objects(output):
        action, package, test = (str(row.get(key) or "") for key in ("Action", "Package", "Test"))
        name = f"{package}::{test}" if test else package
        if test and str(row.get("Output") or "").startswith(f"ok  \t{package}\t"):
            ended.add(name)
        if (
            name in ended
            or action not in ("pass", "fail", "skip")
            or not (test or action == "fail")
        ):
            continue
        # A package fails with its tests; only without any has it a failure of its own.
        if test or not any(known.startswith(f"{package}::") for known in found.failed):
            _add(found, name, action, row.get("Elapsed"))
    return found


_LIBTEST: Final = re.compile(r"test (.{1,400}?)(?: - should panic)? \.\.\. (ok|FAILED|ignored)\b")
_TARGET: Final = re.compile(
    r"\s+(?:Running (?:unittests )?|Doc-tests )(?!`)(\S{1,300})"
    r"(?: \((?:\S{0,300}/)?(\S{1,200}?)(?:-\w+)?\))?"
)


_VERBOSE: Final = re.compile(r"\s+Running `\S{0,300}/(\S{1,200}?)-[0-9a-f]{16}\b")
"""Under `--verbose` a target's program alone is named, whose number an edit changes."""
_AT_LINE: Final = re.compile(r"(?: \(line |_line_)(\d{1,9})\)?")


def read_libtest(output: str, _: Sequence[bytes]) -> Outcomes:
    """`cargo test`; a test's name follows that of its target. With threads, a test may print
    between its name and its outcome: such a line is no result. Of targets with one path, as those
    of a workspace's members, the later ones are told by their crates. Examples in documentation are
    counted in the order of their lines, which an edit moves."""
    found, target, crates = Outcomes(), "", dict[str, str]()
    examples: list[tuple[str, int, str]] = []
    for line in _list_lines(output):
        if match := _VERBOSE.match(line):
            target = match[1]
        elif match := _TARGET.match(line):
            crate = match[2] or ""
            is_first = crates.setdefault(match[1], crate) == crate
            target = match[1] if is_first else f"{crate}/{match[1]}"
        elif match := _LIBTEST.match(line):
            name = f"{target}::{match[1]}" if target else match[1]
            if at := _AT_LINE.search(name):
                examples.append((name.replace(at[0], ""), int(at[1]), match[2]))
            else:
                _add(found, name, match[2])
    counts: Counter[str] = Counter()
    for name, _line, word in sorted(examples):
        counts[name] += 1
        _add(found, f"{name} ({counts[name]})" if counts[name] > 1 else name, word)
    return found


_TAP: Final = re.compile(
    r"\s{0,40}(not )?ok(?! [\s|(])(?: (\d{1,9})\b)?(?: -)?(?: ([^#\n]{0,400})|$)"
    r"(?:# ?((?i:skip|todo)))?"
)
"""Not the sums that Go's and Deno's runners print, whose times differ from run to run."""
_AUTOMAKE: Final = re.compile(
    r"(PASS|FAIL|XFAIL|XPASS|SKIP|ERROR(?=: [\w./+-]{1,300}(?: \d+ ?-?.*)?$)): (.{1,400})"
)
"""After ERROR a name alone: other programs, such as npm-run-all, begin sentences so."""


def read_lines(output: str, _: Sequence[bytes]) -> Outcomes:
    """TAP (testanything.org), or the lines of automake's `make check`."""
    found = Outcomes()
    for line in _list_lines(output):
        if match := _AUTOMAKE.fullmatch(line):
            _add(found, match[2], match[1])
        elif match := _TAP.match(line):
            name = (match[3] or "").strip() or f"test {match[2] or ''}"
            _add(found, name, "skip" if match[4] else "fail" if match[1] else "pass")
    return found


_MINITEST: Final = re.compile(r"(\S[^#]{0,300}#\S.{0,300}?) = (\d{1,9}\.\d+) s = ([.FES])$")
_TEST_UNIT: Final = re.compile(r"\s{1,40}(test.{0,300}?):(?:\t+|(?=[.FEPO](?:$|: ))) ?(.*)")
_SUITE: Final = re.compile(r"\s{0,40}([A-Z]\S{0,300}): ?")
_END: Final = re.compile(r".*([.FEPO]): +\((\d{1,9}\.\d+)\)|([FEPO])")


def read_minitest(output: str, _: Sequence[bytes]) -> Outcomes:
    """minitest's lines under `-v`, without the numbers of its specs; and test-unit's, which names a
    test before it runs, prints F or E alone for one that fails, and may find text in between."""
    found, suite, begun = Outcomes(), "", ""
    for line in _list_lines(output):
        if match := _MINITEST.match(line):
            _add(found, re.sub(r"#test_\d{4}_", "#test_", match[1]), match[3], match[2])
            continue
        rest = line
        if match := _SUITE.fullmatch(line):
            suite, begun = match[1], ""
        elif match := _TEST_UNIT.fullmatch(line):
            begun, rest = f"{suite}#{match[1]}" if suite else match[1], match[2]
        if begun and (end := _END.fullmatch(rest)):
            _add(found, begun, end[1] or end[3], end[2])
            begun = ""
    return found


def read_rspec(_: str, documents: Sequence[bytes]) -> Outcomes:
    """RSpec's JSON."""
    found = Outcomes()
    for document in documents:
        for case in _list_cases(document, "examples"):
            title = str(case.get("full_description"))
            title = re.sub(r"(example at [^:\s]{1,300}):\d+", r"\1", title)
            name = f"{case.get('file_path')}::{title}"
            _add(found, name, str(case.get("status")), case.get("run_time"))
    return found


def read_jest(_: str, documents: Sequence[bytes]) -> Outcomes:
    """jest's and vitest's JSON; a file without a result of its own is one failed test."""
    found = Outcomes()
    for document in documents:
        for file in _list_cases(document, "testResults"):
            before, _, place = str(file.get("name") or "").partition(f"{CHECKOUT}/")
            place = place or before.rpartition("/")[2]
            cases = list(_list_objects_of(file.get("assertionResults")))
            for case in cases:
                name = f"{place}::{case.get('fullName') or case.get('title')}"
                _add(found, name, str(case.get("status")))
            if not cases and file.get("status") == "failed":
                _add(found, place, "failed")
    return found


def read_trx(_: str, documents: Sequence[bytes]) -> Outcomes:
    """`dotnet test --logger trx` (vstst.xsd of Visual Studio), each test with its class."""
    found = Outcomes()
    for document in documents:
        rows: list[dict[str, str]] = []
        classes: dict[str, str] = {}
        with suppress(ParseError, DefusedXmlException, ValueError, RecursionError):
            _read_test_run(document, rows, classes)
        for row in rows:
            name, place = row.get("testName", ""), classes.get(row.get("testId", ""), "")
            word = row.get("outcome", "").lower()
            clock = re.fullmatch(r"(\d{1,3}):(\d\d):(\d\d(?:\.\d{1,9})?)", row.get("duration", ""))
            hours, minutes, seconds = map(float, clock.groups()) if clock else (0.0, 0.0, 0.0)
            is_whole = not place or name.startswith(f"{place}.")
            _add(
                found,
                name if is_whole else f"{place}.{name}",
                "skipped" if word in ("notexecuted", "inconclusive") else word,
                3600 * hours + 60 * minutes + seconds,
            )
    return found


def _read_test_run(document: bytes, rows: list[dict[str, str]], classes: dict[str, str]) -> None:
    test = ""
    for event, element in iterparse(io.BytesIO(document), events=("start", "end"), forbid_dtd=True):
        tag = element.tag.rpartition("}")[2]
        if event == "end":
            element.clear()
        elif tag == "UnitTestResult" and len(rows) < MOST_TESTS:
            rows.append(dict(element.attrib))
        elif tag == "UnitTest":
            test = element.get("id", "")
        elif tag == "TestMethod":
            classes[test] = element.get("className", "").partition(",")[0]


def join_go_output(output: str) -> str:
    """What `go test -json` says in words: of single tests, only of those that fail."""
    rows = list(_list_objects(output))
    ends = {(row.get("Package"), row.get("Test")): row.get("Action") for row in rows}
    told = [
        str(row.get("Output") or "")
        for row in rows
        if not row.get("Test") or ends[row.get("Package"), row.get("Test")] != "pass"
    ]
    rest = (line for line in output.split("\n") if not line.startswith("{"))
    return "".join(told) + "\n".join(rest).strip("\n")


WORDS: Final[Mapping[str, Callable[[str], str]]] = {"go": join_go_output}
"""By reader: the output as a person reads it, where that is not what is printed."""
READERS: Final[Mapping[str, Reader]] = {
    "go": read_go,
    "libtest": read_libtest,
    "lines": read_lines,
    "minitest": read_minitest,
    "rspec": read_rspec,
    "jest": read_jest,
    "trx": read_trx,
}
_GOOD: Final = frozenset(("pass", "passed", "ok", "PASS", "XFAIL", "."))
_SKIPPED: Final = frozenset(
    ("skip", "SKIP", "ignored", "pending", "skipped", "todo", "disabled", "S", "P", "N", "O")
)


def _add(found: Outcomes, name: str, word: str, seconds: object = 0.0) -> None:
    name = stable_name(name)
    if not name or len(found.seconds) >= MOST_TESTS:
        return
    if word in _SKIPPED:
        found.skipped.add(name)
        return
    found.add(name, good=word in _GOOD, seconds=to_seconds(seconds))
    found.passed -= {name} & found.failed


def _list_lines(output: str) -> Iterator[str]:
    for line in output.split("\n"):
        yield line[:2000].rstrip()


def _list_objects(output: str) -> Iterator[dict[str, Any]]:
    for line in output.split("\n"):
        if line.startswith("{") and len(line) < LONGEST_LINE:
            yield from _parse_object(line)


def _parse_object(text: str | bytes) -> Iterator[dict[str, Any]]:
    try:
        value: Any = json.loads(text)
    except (ValueError, RecursionError):
        return
    if isinstance(value, dict):
        yield cast(dict[str, Any], value)


def _list_cases(document: bytes, key: str) -> Iterator[dict[str, Any]]:
    for whole in _parse_object(document):
        yield from _list_objects_of(whole.get(key))


def _list_objects_of(value: object) -> Iterator[dict[str, Any]]:
    for one in cast(list[Any], value) if isinstance(value, list) else []:
        if isinstance(one, dict):
            yield cast(dict[str, Any], one)
