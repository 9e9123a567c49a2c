"""How far stated probabilities are from observed frequencies."""

from __future__ import annotations

import random
from collections.abc import Iterable, Sequence

from pipeline.selection.scoring.confidence import CalibrationBin

StatedOutcome = tuple[float, float]
"""A stated probability, and the share of right edits among choices with it."""


def reliability_curve(points: Iterable[StatedOutcome], bins: int = 10) -> list[CalibrationBin]:
    """The reliability curve: points by equal ranges of probability; empty ranges are left out."""
    groups: dict[int, list[StatedOutcome]] = {}
    for point in points:
        groups.setdefault(min(int(point[0] * bins), bins - 1), []).append(point)
    return [
        CalibrationBin(
            confidence=round(sum(p for p, _ in group) / len(group), 4),
            right=round(sum(r for _, r in group) / len(group), 4),
            choices=len(group),
        )
        for _, group in sorted(groups.items())
    ]


def calibration_error(bins: Sequence[CalibrationBin]) -> float:
    """The expected calibration error: the mean distance of curve and diagonal, over choices."""
    total = sum(b.choices for b in bins)
    return sum(abs(b.confidence - b.right) * b.choices for b in bins) / total if total else 0.0


def brier_score(points: Sequence[StatedOutcome]) -> float:
    """The mean squared distance of confidence and outcome, 0 to 1. Needs at least one point."""
    return sum((stated - right) ** 2 for stated, right in points) / len(points)


def chance_error(confidences: Sequence[float], times: int = 200) -> float:
    """The mean calibration error of a perfectly calibrated confidence.

    It is not 0, because few choices fall into each range. Deterministic.
    """
    draw = random.Random(0)  # noqa: S311
    drawn = (
        [(confidence, float(draw.random() < confidence)) for confidence in confidences]
        for _ in range(times)
    )
    return sum(calibration_error(reliability_curve(points)) for points in drawn) / times
