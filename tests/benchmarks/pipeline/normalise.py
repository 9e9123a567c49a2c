"""Normalising and clustering 100 candidates of 500 changed lines, against a second; public edits
whose forms are alike though they differ."""

from __future__ import annotations

import asyncio
import random
import statistics
import time

from pipeline.selection.scoring.canonical import normalise
from pipeline.selection.scoring.features import clusters, medoid
from tests.benchmarks.table import Row
from tests.support.data.public_edits import ENSEMBLE, count_shared_keys

CANDIDATES = 100
LINES = 500
ROUNDS = 5


async def measure() -> list[Row]:
    seconds, similar = await asyncio.to_thread(_rounds)
    return [
        Row("normalise and cluster 100 edits of 500 lines", seconds, "s", "target", 1.0),
        Row("the same with their similarity medoid", similar, "s", "target", 2.0),
        *(await asyncio.to_thread(_count) if ENSEMBLE.exists() else []),
    ]


def _count() -> list[Row]:
    empty, pairs = count_shared_keys()
    return [
        Row("reference hunks that change code and have an empty form", empty, "", "target", 4),
        Row("pairs of a right and a wrong public edit with one form", pairs, "", "target", 440),
    ]


def _rounds() -> tuple[float, float]:
    """Every round has edits of its own, so that no cache helps."""
    taken: list[float] = []
    similar: list[float] = []
    for number in range(ROUNDS):
        draw = random.Random(number)
        diffs = [_diff(draw) for _ in range(CANDIDATES)]
        began = time.perf_counter()
        forms = [normalise(diff) for diff in diffs]
        found = clusters([form.key for form in forms])
        taken.append(time.perf_counter() - began)
        assert len(found) == CANDIDATES
        medoid(forms)
        similar.append(time.perf_counter() - began)
    return statistics.median(taken), statistics.median(similar)


def _diff(draw: random.Random) -> str:
    """A diff of ten hunks in which 250 lines go and 250 come."""
    each = LINES // 20
    parts = [
        "diff --git a/shop/total.py b/shop/total.py",
        "--- a/shop/total.py",
        "+++ b/shop/total.py",
    ]
    for hunk in range(10):
        start = hunk * 100 + 1
        parts.append(
            f"@@ -{start},{each + 2} +{start},{each + 2} @@ def price_{hunk}(items, rate):"
        )
        parts.append("     # the old way of counting")
        parts += [f"-{_line(hunk * 1000 + n)}" for n in range(each)]
        parts += [f"+{_line(draw.randrange(10**6))}" for _ in range(each)]
        parts.append("     return total")
    return "\n".join(parts) + "\n"


def _line(seed: int) -> str:
    return (
        f'    total_{seed % 97} = add(items[{seed}], rate * {seed}, name="item {seed}")  # {seed}'
    )
