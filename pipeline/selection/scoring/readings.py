"""An issue that its scripts read in two ways: what one asks for, the other forbids."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence
from itertools import combinations
from typing import NamedTuple

from pipeline.codebase.text import pluralize
from pipeline.data.types import NOT_FIXED, VoteTable
from prompts.text import strip_ansi


class Reading(NamedTuple):
    script: int
    """A test of the vote table."""
    passed: frozenset[int]
    """The candidates that pass it."""


def find_readings(table: VoteTable, tests: Sequence[int]) -> tuple[Reading, Reading] | None:
    """Two of `tests`, each passed by edits that all fail the other; None if there are none.

    `tests` fail on the unedited code and always end alike. Of several pairs, the one that the most
    edits belong to.
    """
    readings = [
        Reading(test, frozenset(c for c, runs in enumerate(table.runs) if runs[test].passed))
        for test in tests
    ]
    pairs = [
        (one, other)
        for one, other in combinations(readings, 2)
        if _fail(table, one, other) and _fail(table, other, one)
    ]
    return max(pairs, key=lambda pair: sum(len(one.passed) for one in pair), default=None)


def _fail(table: VoteTable, one: Reading, other: Reading) -> bool:
    """Whether edits pass `one`, and `other` reports the issue with each of them."""
    ends = {table.runs[c][other.script].exit_code for c in one.passed}
    return ends == {NOT_FIXED}


def share_of_reading(readings: tuple[Reading, Reading], candidate: int) -> float:
    """Of the edits that follow one of the `readings`, the share that reads as `candidate` does; 1
    if it follows neither."""
    counts = [len(one.passed) for one in readings if candidate in one.passed]
    return counts[0] / sum(len(one.passed) for one in readings) if counts else 1.0


def describe_readings(table: VoteTable, readings: tuple[Reading, Reading]) -> str:
    """In a sentence, with what each script says of the other's edits. Untrusted."""
    ways = [
        f"script {one.script + 1}, which {pluralize(len(one.passed), 'edit')} "
        f"{'passes' if len(one.passed) == 1 else 'pass'}, says of the others: "
        f"“{quote_expectation(table.runs[min(other.passed)][one.script].output)}”"
        for one, other in (readings, readings[::-1])
    ]
    return f"The issue can be read in two ways: {'; '.join(ways)}. No edit passes both."


def quote_expectation(output: str) -> str:
    """The last line that names what was expected, or else the last."""
    lines = [line for line in strip_ansi(output).splitlines() if line.strip()]
    named = [line for line in lines if "expect" in line.lower()]
    last = (named or lines or ["it fails, and prints nothing"])[-1]
    return textwrap.shorten(last, 120, placeholder=" …")
