"""What executions say for each candidate, in log-odds, on one scale with the fitted confidence.

The confidence from the text of the edits is fitted on labelled data (`confidence.py`). No labelled
data with executions is at hand, so what an execution adds is **assumed, not fitted**: a likelihood
ratio for each test that votes and for the repository's own tests, as below. Tests that one model
wrote for one issue agree in their errors too, so n of them count as `n / (1 + (n - 1) * ALIKE)`.

A test's share in that is its weight, `(1 + r) / 2`, where `r` from -1 to 1 is how it discriminates:
the correlation, over the candidates, of passing it with the share of the other voting tests that
are passed (the item-rest correlation of classical test theory), times `m / (m + DRAW)` for `m`
candidates. It is 0.5 for a test that tells nothing apart.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from statistics import fmean

from pipeline.selection.voting import reproducing_tests
from pipeline.types import VoteTable

PASSED_IF_RIGHT, PASSED_IF_WRONG = 0.75, 0.45
"""Assumed: how often a right and a wrong edit pass a test that somebody wrote for the issue."""
BREAKS_IF_RIGHT, BREAKS_IF_WRONG = 0.05, 0.30
"""Assumed: how often a right and a wrong edit break a test of the repository's own."""
TEST_CORRELATION = 0.6
"""Assumed: the correlation between tests that were written for one issue."""
PRIOR_CANDIDATES = 4
"""Candidates that are imagined to say nothing about a test, beside those that there are."""


def voting_tests(table: VoteTable, *, all_tests: bool = False) -> tuple[int, ...]:
    """The tests that vote: those that fail on the unedited code as tests of the issue do, unless
    `all_tests` counts, and never flaky ones."""
    tests = range(len(table.tests)) if all_tests else reproducing_tests(table)
    return tuple(test for test in tests if test not in table.flaky)


def vote_weights(table: VoteTable, tests: Sequence[int]) -> list[float]:
    """Of each of `tests`, how much its vote counts: from 0 to 1."""
    rows = [[float(runs[test].passed) for test in tests] for runs in table.runs]
    drawn = len(rows) / (len(rows) + PRIOR_CANDIDATES)
    return [(1 + drawn * _discrimination(rows, at)) / 2 for at in range(len(tests))]


def _discrimination(rows: Sequence[Sequence[float]], at: int) -> float:
    if not rows or len(rows[0]) < 2:
        return 0.0
    own = [row[at] for row in rows]
    rest = [sum(row) - row[at] for row in rows]
    return _correlation(own, rest)


def _correlation(xs: Sequence[float], ys: Sequence[float]) -> float:
    """Pearson's; 0 where one does not vary."""
    mean_x, mean_y = fmean(xs), fmean(ys)
    both = sum((x - mean_x) * (y - mean_y) for x, y in zip(xs, ys, strict=True))
    spread = sum((x - mean_x) ** 2 for x in xs) * sum((y - mean_y) ** 2 for y in ys)
    return both / math.sqrt(spread) if spread > 1e-12 else 0.0


def script_odds(table: VoteTable, tests: Sequence[int]) -> list[float]:
    """Of each candidate, what passing and failing `tests` adds to its log-odds of being right."""
    shares = vote_weights(table, tests)
    total = sum(shares)
    if total <= 0:
        return [0.0 for _ in table.candidates]
    count = len(tests) / (1 + (len(tests) - 1) * TEST_CORRELATION)
    passed = math.log(PASSED_IF_RIGHT / PASSED_IF_WRONG)
    failed = math.log((1 - PASSED_IF_RIGHT) / (1 - PASSED_IF_WRONG))
    return [
        count
        * sum(
            share * (passed if runs[test].passed else failed)
            for test, share in zip(tests, shares, strict=True)
        )
        / total
        for runs in table.runs
    ]


def suite_odds(broken: Sequence[str] | None) -> float:
    """What the repository's own tests add; nothing where they were not run."""
    if broken is None:
        return 0.0
    if broken:
        return math.log(BREAKS_IF_RIGHT / BREAKS_IF_WRONG)
    return math.log((1 - BREAKS_IF_RIGHT) / (1 - BREAKS_IF_WRONG))
