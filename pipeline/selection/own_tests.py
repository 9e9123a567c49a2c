"""Whose test decides: what an edit brings decides nothing while only that edit passes it."""

from __future__ import annotations

from collections.abc import Sequence

from pipeline.selection.scoring.execution import voting_tests
from pipeline.types import Candidate, TestScript, VoteTable


def find_self_serving(
    table: VoteTable, candidates: Sequence[Candidate], given: Sequence[TestScript]
) -> tuple[int, ...]:
    """Indices of tests that only edits from outside which bring them pass.

    `candidates`: all that took part at first, also those that are not in `table` any more. A test
    that is also among `given`, or that no edit passes, is not among them.
    """
    independent = {test.text for test in given}
    independent |= {c.test.text for c in candidates if c.test and not c.source}
    found: list[int] = []
    for number, test in enumerate(table.tests):
        own = {c.patch.diff for c in candidates if c.test == test}
        passing = {
            candidate.patch.diff
            for candidate, runs in zip(table.candidates, table.runs, strict=True)
            if runs[number].passed
        }
        if test.text not in independent and own and passing and passing <= own:
            found.append(number)
    return tuple(found)


def rests_on(table: VoteTable, given: Sequence[TestScript]) -> bool:
    """Whether one of the tests that vote is among `given`."""
    texts = {test.text for test in given}
    return any(table.tests[test].text in texts for test in voting_tests(table))


def tell_whose_tests(
    table: VoteTable, given: Sequence[TestScript], written: Sequence[TestScript]
) -> tuple[str, ...]:
    """Sentences: whose tests decided, and whose did not. Names in them are untrusted."""
    ours, theirs = {t.text for t in written}, {t.text for t in given}
    asked = by_us = 0
    sentences: list[str] = []
    for test in voting_tests(table):
        text = table.tests[test].text
        if text in ours:
            by_us += 1
        elif text in theirs:
            asked += 1
        else:
            sentences.append(f"{_name_owner(table, test)} brings a test that votes.")
    if asked or by_us:
        parts = [f"{asked} given with the request"] if asked else []
        parts += [f"{by_us} written by me"] if by_us else []
        sentences.insert(0, f"Independent tests that vote: {', '.join(parts)}.")
    sentences += [
        f"{_name_owner(table, test)} brings a test that only the edit itself passes: it decides "
        "nothing."
        for test in table.self_serving
    ]
    return tuple(sentences)


def _name_owner(table: VoteTable, test: int) -> str:
    names = [c.name for c in table.candidates if c.test == table.tests[test]]
    return ", ".join(names) if names else "An edit that does not take part"
