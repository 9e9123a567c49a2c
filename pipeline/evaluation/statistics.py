"""Scores in per cent, their intervals, and the gap that a method closes."""

from __future__ import annotations

import math
import random
from array import array
from collections.abc import Callable, Sequence
from functools import lru_cache
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
    values = sorted(value for drawn in _draw(count) if not math.isnan(value := statistic(drawn)))
    if not values:
        return 0.0, 0.0
    last = len(values) - 1
    return values[round(_TAIL * last)], values[round((1 - _TAIL) * last)]


@lru_cache(maxsize=1)
def _draw(count: int) -> Sequence[Sequence[int]]:
    """The resamples, which are the same for every score of a report."""
    draw, population = random.Random(_SEED), range(count)  # noqa: S311
    return [array("I", draw.choices(population, k=count)) for _ in range(RESAMPLES if count else 0)]


def _add(values: Sequence[float], drawn: Sequence[int]) -> float:
    return sum(map(values.__getitem__, drawn))


def interval(values: Sequence[float]) -> tuple[float, float]:
    """The 95 % interval of the mean, in per cent."""
    return bootstrap(len(values), lambda drawn: 100 * _add(values, drawn) / len(drawn))


def gap_interval(
    values: Sequence[float], lowest: Sequence[float], highest: Sequence[float]
) -> tuple[float, float]:
    """The 95 % interval of the gap closed, with all three scores resampled together."""

    def gap_ratio(drawn: Sequence[int]) -> float:
        low, high = _add(lowest, drawn), _add(highest, drawn)
        return 100 * (_add(values, drawn) - low) / (high - low) if high > low else math.nan

    return bootstrap(len(values), gap_ratio)


def coverage_at_k(right: int, of: int, k: int) -> float:
    """The chance that at least one of `k` candidates drawn from `of` is among the `right` ones.

    The unbiased estimator of Chen et al. 2021, as Large Language Monkeys uses it.
    """
    if of - right < k:
        return 1.0
    return 1 - math.comb(of - right, k) / math.comb(of, k)
