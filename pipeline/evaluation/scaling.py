"""How coverage and score grow with samples and with revisions (CodeMonkeys, Figure 5)."""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from itertools import combinations
from math import comb
from statistics import fmean

from pipeline.evaluation.bundles import FinishedRun
from pipeline.evaluation.scoring import CurvePoint
from pipeline.evaluation.statistics import coverage_at_k
from pipeline.types import VoteTable

DRAWS = 10
"""Subsets of each size, per run."""


def scores_by_samples(cases: Sequence[tuple[VoteTable, Sequence[bool]]]) -> list[CurvePoint]:
    """Coverage and the score of majority voting with tests, with 1, 2, 3 … samples of each run.

    Only the drawn samples' tests vote, on the drawn samples' edits. Runs with fewer samples count
    with all of theirs.
    """
    most = max((len(right) for _, right in cases), default=0)
    draw = random.Random(0)  # noqa: S311
    points: list[CurvePoint] = []
    for k in range(1, most + 1):
        covered = [
            coverage_at_k(sum(right), len(right), min(k, len(right))) if right else 0.0
            for _, right in cases
        ]
        voted = [_voting_score(table, right, k, draw) if right else 0.0 for table, right in cases]
        scores = {"majority voting with tests": 100 * fmean(voted)}
        points.append(CurvePoint(k=k, coverage=100 * fmean(covered), scores=scores))
    return points


def _voting_score(table: VoteTable, right: Sequence[bool], k: int, draw: random.Random) -> float:
    indices = range(len(right))
    if k >= len(right):
        return _tie_score(table, right, indices)
    return fmean(_tie_score(table, right, draw.sample(indices, k)) for _ in range(DRAWS))


def _tie_score(table: VoteTable, right: Sequence[bool], among: Sequence[int]) -> float:
    """The expected score on ties."""
    own = {test.text for c in among if (test := table.candidates[c].test)}
    tests = [t for t, test in enumerate(table.tests) if test.text in own]
    votes = {c: sum(table.runs[c][t].passed for t in tests) for c in among}
    top = max(votes.values())
    return fmean(right[c] for c in among if votes[c] == top)


def coverage_by_revisions(
    runs: Sequence[tuple[FinishedRun, Mapping[int, Sequence[int] | None]]],
) -> dict[str, tuple[float, ...]]:
    """Coverage in per cent after 1, 2, 3 … edits of each machine, by the number of samples.

    A machine that approved early keeps its last edit. Empty unless the labels name the resolving
    revisions of every resolving sample.
    """
    known = [found for _, samples in runs for found in samples.values()]
    if not known or any(found is None for found in known):
        return {}
    longest = max((len(p) for run, _ in runs for p in run.revisions.values()), default=0)
    widest = max((len(run.revisions) for run, _ in runs), default=0)
    return {
        f"{width} samples" if width > 1 else "1 sample": tuple(
            100 * fmean(_coverage_at(run, samples, width, depth) for run, samples in runs)
            for depth in range(1, longest + 1)
        )
        for width in sorted({w for w in (1, 2, 3, 5, 8, 13) if w < widest} | {widest})
    }


def voting_by_revisions(
    runs: Sequence[tuple[FinishedRun, Mapping[int, Sequence[int] | None]]],
) -> dict[str, tuple[float, ...]]:
    """The score of majority voting with tests after 1, 2, 3 … edits (Figure 5, right).

    The tests with which the drawn machines ended vote on every edit. Empty unless every run
    executed them on every edit.
    """
    known = coverage_by_revisions(runs)
    if not known or any(run.revision_passes is None for run, _ in runs):
        return {}
    depths = range(1, len(next(iter(known.values()))) + 1)
    draw = random.Random(0)  # noqa: S311
    return {
        name: tuple(
            100 * fmean(_voting_score_at(run, samples, int(name.split()[0]), depth, draw)
                        for run, samples in runs)
            for depth in depths
        )
        for name in known
    }  # fmt: skip


def _voting_score_at(
    run: FinishedRun,
    samples: Mapping[int, Sequence[int] | None],
    width: int,
    depth: int,
    draw: random.Random,
) -> float:
    """The expected score on ties, over all draws of `width` machines, or `DRAWS` of them."""
    serial = run.revision_passes or {}
    numbers = [c.sample for c in run.candidates if c.sample in serial]
    if not numbers:
        return 0.0
    ends = {s: min(depth, len(serial[s])) - 1 for s in numbers}
    right = {s: ends[s] in (samples.get(s) or ()) for s in numbers}
    texts = {c.sample: c.test.text for c in run.candidates if c.test}

    def tie_score(among: Sequence[int]) -> float:
        own = {texts[s] for s in among if s in texts}
        tests = [t for t, test in enumerate(run.table.tests) if test.text in own]
        votes = {s: sum(row[t] for t in tests) if (row := serial[s][ends[s]]) else -1
                 for s in among}  # fmt: skip
        top = max(votes.values())
        return fmean(right[s] for s in among if votes[s] == top)

    if width >= len(numbers):
        return tie_score(numbers)
    if comb(len(numbers), width) <= DRAWS:
        return fmean(tie_score(some) for some in combinations(numbers, width))
    return fmean(tie_score(draw.sample(numbers, width)) for _ in range(DRAWS))


def _coverage_at(
    run: FinishedRun, samples: Mapping[int, Sequence[int] | None], width: int, depth: int
) -> float:
    ends = {s: min(depth, len(patches)) - 1 for s, patches in run.revisions.items()}
    right = sum(end in (samples.get(sample) or ()) for sample, end in ends.items())
    return coverage_at_k(right, len(ends), min(width, len(ends))) if ends else 0.0
