"""The evidence of executions for each candidate, in log-odds, on the scale of the fitted
confidence.

The confidence from the text of the edits is fitted on labelled data (`confidence.py`). The weight
of an execution is a likelihood ratio for each voting test and for the repository's own tests. Those
are counted on executed edits, and drawn towards assumed ones: `ratios.json` says from how many, and
`pipeline.evaluation.executions.fit` what stays assumed. Tests that one model wrote for one issue
agree in their errors too, so n of them count as `n / (1 + (n - 1) * correlation)`.

A test's share of that is its weight, `(1 + r) / 2`, where `r` from -1 to 1 is its discrimination:
the correlation, over the candidates, of passing it with the share of the other voting tests passed
(the item-rest correlation of classical test theory), times `m / (m + DRAW)` for `m` candidates. It
is 0.5 for a test that does not discriminate.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from statistics import fmean

from pipeline.selection.scoring.ratios import load_shipped_ratios
from pipeline.selection.voting import reproducing_tests
from pipeline.types import VoteTable

PRIOR_CANDIDATES = 4
"""Pseudo-candidates that carry no information about a test, added to the real ones."""


def voting_tests(table: VoteTable, *, all_tests: bool = False) -> tuple[int, ...]:
    """The voting tests: never flaky or self-serving, and, unless `all_tests`, failing on the
    unedited code as tests of the issue do."""
    tests = range(len(table.tests)) if all_tests else reproducing_tests(table)
    silent = {*table.flaky, *table.self_serving}
    return tuple(test for test in tests if test not in silent)


def vote_weights(table: VoteTable, tests: Sequence[int]) -> list[float]:
    """The weight of each of `tests`, from 0 to 1."""
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
    """Pearson's correlation; 0 if one side does not vary."""
    mean_x, mean_y = fmean(xs), fmean(ys)
    both = sum((x - mean_x) * (y - mean_y) for x, y in zip(xs, ys, strict=True))
    spread = sum((x - mean_x) ** 2 for x in xs) * sum((y - mean_y) ** 2 for y in ys)
    return both / math.sqrt(spread) if spread > 1e-12 else 0.0


def script_odds(table: VoteTable, tests: Sequence[int]) -> list[float]:
    """By candidate: the log-odds of being right that passing and failing `tests` adds."""
    shares, ratios = vote_weights(table, tests), load_shipped_ratios().ratios
    return [
        ratios.script_odds(
            [(share, runs[test].passed) for test, share in zip(tests, shares, strict=True)]
        )
        for runs in table.runs
    ]


def suite_odds(broken: Sequence[str] | None) -> float:
    """The log-odds that the repository's own tests add; 0 if they did not run."""
    return 0.0 if broken is None else load_shipped_ratios().ratios.breaks.odds(bool(broken))
