"""Every regular expression takes time in proportion to its text, no matter who wrote it.

All calls of `re` in the source are found. Each pattern is tried on texts made from its own
structure (`tests/support/patterns.py`): 64 KB first, and where that is slow the text is tried at
1 MB, which must take less than seven times the processor time that `BASELINE` takes beside it.
"""

import collections
import re
import signal
import time
import tomllib
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Any, Final

import pytest

from pipeline.languages.language import Language
from pipeline.languages.registry import LANGUAGES
from tests.support.patterns import Pattern, list_patterns, list_texts

ROOT: Final = Path(__file__).parents[2]
SMALL: Final = 64_000
LARGE: Final = 1_000_000
MOST: Final = 7.0
"""How often the time of `BASELINE` a pattern may take: about a second on a quick machine."""
BASELINE: Final = re.compile(r"\bone\b.{0,60}(?:two|three)", re.DOTALL | re.IGNORECASE)
BASELINE_TEXT: Final = ("one " * LARGE)[:LARGE]
PATH: Final = "a path of a repository: at most 4,096 bytes"
IN_BUILD: Final = "runs in the build container, on that build's own output"
SHORT_TEXTS: Final = {
    "pipeline/environment/setup_machine.py::_LOCKS": PATH,
    "pipeline/edits/suspicious.py::_SCRATCH": PATH,
    "pipeline/languages/ci.py::is_in_range": "cut to 500 characters",
    "pipeline/languages/ci.py::is_in_range#2": "cut to 500 characters",
    "pipeline/languages/python/metadata.py::DESCRIBED": "the name of a tag: git's limit",
    "pipeline/lab/dataset.py::_PATH_PARAMETER": "names of tests; offline",
    "sandbox/guest/installer/resolve.py::LACKS#7": IN_BUILD,
    "sandbox/guest/installer/resolve.py::LACKS#8": IN_BUILD,
    "sandbox/guest/installer/requirements.py::read_files": IN_BUILD,
    "sandbox/guest/installer/requirements.py::read_lines#2": IN_BUILD,
    "sandbox/guest/network/pages.py::LINK": "pages of the operator's package index",
}
"""Patterns that need more, by place, and why their texts are always short."""


@cache
def patterns() -> dict[str, Pattern]:
    """By place; found once a process, by the first test that asks: every process collects this."""
    found = {pattern.place: pattern for pattern in list_patterns()}
    return found | {pattern.place: pattern for pattern in list_described()}


def list_described() -> Iterator[Pattern]:
    """What the descriptions of languages search in the output and the texts of a repository."""
    for file in sorted((ROOT / "pipeline/languages").glob("*/language.toml")):
        described = tomllib.loads(file.read_text(encoding="utf-8"))
        tests, place = described.get("tests", {}), file.relative_to(ROOT)
        for name in ("names", "passed", "failed", "broken", "head"):
            if text := tests.get(name):
                yield Pattern(f"{place}::{name}", text, re.MULTILINE, "search", binary=False)
        for number, (_, text, _, _) in enumerate(tests.get("failing", [])):
            yield Pattern(f"{place}::failing#{number}", text, re.MULTILINE, "search", binary=False)
        for name, found in described.get("printed", {}).items():
            listed = found.values() if name == "counted" else found
            for number, text in enumerate([found] if isinstance(found, str) else listed):
                printed = f"{place}::printed.{name}#{number}"
                whole = "fullmatch" if name in ("results", "progress") else "search"
                yield Pattern(printed, text, re.MULTILINE, whole, binary=False)
        for number, way in enumerate(described.get("ways", [])):
            if text := way.get("says"):
                yield Pattern(f"{place}::says#{number}", text, 0, "search", binary=False)


class TooLong(Exception):
    pass


@contextmanager
def limit(seconds: float) -> Generator[None]:
    """Raise `TooLong` after so much processor time: the matcher looks for signals."""

    def stop(*_: object) -> None:
        raise TooLong

    before = signal.signal(signal.SIGVTALRM, stop)
    signal.setitimer(signal.ITIMER_VIRTUAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_VIRTUAL, 0)
        signal.signal(signal.SIGVTALRM, before)


def measure(pattern: Pattern, text: str, most: float) -> float:
    """Seconds that the pattern takes for the text; `most` if it takes longer."""
    source: Any = pattern.text.encode("latin-1") if pattern.binary else pattern.text
    subject: Any = text.encode() if pattern.binary else text
    compiled: Any = re.compile(source, pattern.flags)
    began = time.thread_time()
    try:
        with limit(most):
            if pattern.function in ("match", "fullmatch"):
                getattr(compiled, pattern.function)(subject)
            else:
                collections.deque(compiled.finditer(subject), maxlen=0)
    except TooLong:
        return most
    return time.thread_time() - began


def measure_baseline() -> float:
    """Seconds that this machine takes at this moment for 1 MB and a pattern of the usual kind."""
    began = time.thread_time()
    collections.deque(BASELINE.finditer(BASELINE_TEXT), maxlen=0)
    return time.thread_time() - began


@cache
def usual_baseline() -> float:
    return measure_baseline()


def find_slow_text(pattern: Pattern) -> str:
    """A text for which the pattern takes far longer than the baseline; empty if none is found."""
    most = MOST * usual_baseline() * SMALL / LARGE
    for number, text in enumerate(list_texts(pattern, SMALL)):
        if measure(pattern, text, most) < most:
            continue
        # A neighbour may have slowed one measurement: the baseline is measured beside the text.
        most_large = MOST * measure_baseline()
        if measure(pattern, list_texts(pattern, LARGE)[number], most_large) >= most_large:
            return text[:60]
    return ""


@pytest.mark.parametrize("text", [r"(?:a+)+b", r"(?:\s*\n)+x"])
def test_a_pattern_that_takes_more_than_its_share_is_found(text: str) -> None:
    pattern = Pattern("here", text, re.DOTALL, "search", binary=False)
    assert find_slow_text(pattern)


def test_all_expressions_are_found() -> None:
    assert len(patterns()) > 350
    unread = [place for place, pattern in patterns().items() if pattern.text == "x"]
    # Those of these are data, and found as such.
    data = ("pipeline/languages/printed.py", "pipeline/languages/described.py")
    assert len([one for one in unread if not one.startswith(data)]) < 30


def test_every_exception_still_exists() -> None:
    assert SHORT_TEXTS.keys() <= patterns().keys()


@pytest.mark.parametrize("room", ["bot", "pipeline", "sandbox/environment", "sandbox", "prompts"])
def test_every_pattern_takes_time_in_proportion_to_its_text(room: str) -> None:
    slow = {
        place: found
        for place, pattern in patterns().items()
        if place.startswith(f"{room}/")
        and (room != "sandbox" or not place.startswith("sandbox/environment/"))
        and place not in SHORT_TEXTS
        and (found := find_slow_text(pattern))
    }
    assert slow == {}


@pytest.mark.parametrize("language", LANGUAGES, ids=lambda one: one.facts.name)
def test_the_patterns_of_a_language_take_time_in_proportion_to_their_text(
    language: Language,
) -> None:
    facts = language.facts
    marks = [says for one in facts.formatters for _, says in one.marks]
    stated = [said for file, said, _ in facts.stated if file != "ci"]
    texts = [facts.ci_tests, facts.forges, facts.tests.names, *stated, *marks]
    for text in filter(None, texts):
        pattern = Pattern("language.toml", text, re.MULTILINE, "search", binary=False)
        assert not find_slow_text(pattern), text
