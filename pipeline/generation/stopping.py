"""Decides when more samples are not worth their price."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterator

from pipeline.generation.testing import NOT_FIXED
from pipeline.types import VoteTable

QUORUM = 2 / 3
"""The share of the independent samples that must agree."""
LEAST = 3
"""How many must agree at least, by default."""


def waves(samples: int, *, first: int, adaptive: bool) -> Iterator[range]:
    """The sample numbers that start together: `first` at a time, or all at once."""
    size = first if adaptive else samples
    for start in range(0, samples, size):
        yield range(start, min(samples, start + size))


def is_enough(
    table: VoteTable,
    independent: Collection[int],
    started: int,
    *,
    least: int = LEAST,
    sources: int = 1,
) -> bool:
    """Whether to stop after a wave (the stop rule).

    `independent` are the numbers of the samples that count: they saw no other sample's edit and
    break none of the repository's tests that ran; `started` is the number of such samples, with or
    without an edit. Stop if at least `least` of them, and two thirds of `started`, agree: each has
    a script that reports the issue on the unedited code, and passes the scripts of all. Otherwise
    continue, up to the maximum: there is disagreement, or nothing passes yet.

    `sources` is how many kinds of machines and models have drawn samples (`Candidate.origin`).
    Copies of one make the same mistakes: where there are several, two of them must agree.

    The paper always draws all samples. `make bench ONLY=stopping` prints what each `least` saves
    and loses in a simple world (real issues may differ): of 10 samples, 6.84 are drawn with 2, 8.50
    with 3 and all 10 in the paper, and a right edit is chosen for 88.9, 90.9 and 91.7 % of the
    issues. `LEAST` is the smallest value at which one more required agreement no longer pays: one
    more solved issue may cost ten whole runs, 100 samples. From 2 to 3 it costs 83, from 3 to all
    of them 188. So the expected saving is 15 % of the samples, for 0.8 points of the issues.
    """
    group = agreeing_candidates(table, independent)
    found = {table.candidates[c].origin for c in group}
    return len(group) >= max(least, math.ceil(QUORUM * started - 1e-9)) and len(found) >= min(
        2, sources
    )


def agreeing_candidates(table: VoteTable, independent: Collection[int]) -> tuple[int, ...]:
    """Indices of candidates that pass each other's scripts: a large group, best first.

    The group grows from the candidate that passes most; a larger one may exist.
    """
    own = {
        c: table.tests.index(candidate.test)
        for c, candidate in enumerate(table.candidates)
        if candidate.sample in independent and candidate.test in table.tests
    }
    fit = [c for c, t in own.items() if _is_reporting(table, t) and table.runs[c][t].passed]
    group: list[int] = []
    for c in sorted(fit, key=lambda c: (-sum(table.runs[c][own[o]].passed for o in fit), c)):
        if all(table.runs[c][own[o]].passed and table.runs[o][own[c]].passed for o in group):
            group.append(c)
    return tuple(group)


def _is_reporting(table: VoteTable, test: int) -> bool:
    return table.base[test].exit_code == NOT_FIXED
