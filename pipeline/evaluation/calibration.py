"""How far stated probabilities are from how often they come true."""

from __future__ import annotations

import random
from collections.abc import Iterable, Sequence

from pipeline.selection.scoring.confidence import Bin

Point = tuple[float, float]
"""A stated probability, and the share of right edits among those chosen with it."""


def curve(points: Iterable[Point], bins: int = 10) -> list[Bin]:
    """The reliability curve: points by equal ranges of probability; empty ranges are left out."""
    groups: dict[int, list[Point]] = {}
    for point in points:
        groups.setdefault(min(int(point[0] * bins), bins - 1), []).append(point)
    return [
        Bin(
            confidence=round(sum(p for p, _ in group) / len(group), 4),
            right=round(sum(r for _, r in group) / len(group), 4),
            choices=len(group),
        )
        for _, group in sorted(groups.items())
    ]


def calibration_error(bins: Sequence[Bin]) -> float:
    """The expected calibration error: the mean distance of curve and diagonal, by choices."""
    total = sum(b.choices for b in bins)
    return sum(abs(b.confidence - b.right) * b.choices for b in bins) / total if total else 0.0


def brier(points: Sequence[Point]) -> float:
    """The mean squared distance of confidence and outcome, 0 to 1. There must be a point."""
    return sum((stated - right) ** 2 for stated, right in points) / len(points)


def error_by_chance(confidences: Sequence[float], times: int = 200) -> float:
    """The mean calibration error when every confidence is exactly the chance to be right.

    It is not 0, because few choices fall into each range. The same each time.
    """
    draw = random.Random(0)  # noqa: S311
    drawn = (
        [(confidence, float(draw.random() < confidence)) for confidence in confidences]
        for _ in range(times)
    )
    return sum(calibration_error(curve(points)) for points in drawn) / times
