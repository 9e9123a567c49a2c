"""Scores in per cent, their intervals, and the gap that a method closes."""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Sequence
from statistics import fmean

RESAMPLES = 2000
_SEED = 20260101
_TAIL = 0.025


def percent(values: Sequence[float]) -> float:
    """The mean in per cent; 0 of nothing."""
    return 100 * fmean(values) if values else 0.0


def gap_closed(score: float, lowest: float, highest: float) -> float | None:
    """The per cent of the gap from random to oracle that `score` closes; None without a gap."""
    gap = highest - lowest
    return 100 * (score - lowest) / gap if gap > 1e-9 else None


def bootstrap(count: int, statistic: Callable[[Sequence[int]], float]) -> tuple[float, float]:
    """The 95 % bootstrap interval of `statistic` over instances. Deterministic.

    `statistic` receives indices below `count`; draws where it is not a number are skipped.
    """
    draw = random.Random(_SEED)  # noqa: S311
    population = range(count)
    values = sorted(
        value
        for _ in range(RESAMPLES if count else 0)
        if not math.isnan(value := statistic(draw.choices(population, k=count)))
    )
    if not values:
        return 0.0, 0.0
    last = len(values) - 1
    return values[round(_TAIL * last)], values[round((1 - _TAIL) * last)]


def interval(values: Sequence[float]) -> tuple[float, float]:
    """The 95 % interval of the mean, in per cent."""
    return bootstrap(len(values), lambda drawn: 100 * sum(values[i] for i in drawn) / len(drawn))


def gap_interval(
    values: Sequence[float], lowest: Sequence[float], highest: Sequence[float]
) -> tuple[float, float]:
    """The 95 % interval of the gap closed, with all three scores resampled together."""

    def gap_ratio(drawn: Sequence[int]) -> float:
        low, high = sum(lowest[i] for i in drawn), sum(highest[i] for i in drawn)
        return (
            100 * (sum(values[i] for i in drawn) - low) / (high - low) if high > low else math.nan
        )

    return bootstrap(len(values), gap_ratio)


def coverage_at_k(right: int, of: int, k: int) -> float:
    """The chance that at least one of `k` candidates drawn from `of` is among the `right` ones.

    The unbiased estimator of Chen et al. 2021, as Large Language Monkeys uses it.
    """
    if of - right < k:
        return 1.0
    return 1 - math.comb(of - right, k) / math.comb(of, k)
