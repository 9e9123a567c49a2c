"""Scores of selection methods, their intervals and calibration."""

import math
import random
from array import array
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import lru_cache
from statistics import fmean
from types import MappingProxyType

from pipeline.selection.scoring.confidence import CalibrationBin
from sandbox.frozen import Frozen

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
    draw, population = random.Random(20260101), range(count)  # noqa: S311
    return [array("I", draw.choices(population, k=count)) for _ in range(2000 if count else 0)]


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


def sample_coverage(
    ends: Mapping[int, int], resolved: Mapping[int, Sequence[int] | None], width: int
) -> float:
    """The chance that one of `width` samples drawn is right, with each at its revision in `ends`.

    `resolved`: the right revisions by sample.
    """
    right = sum(end in (resolved.get(sample) or ()) for sample, end in ends.items())
    return coverage_at_k(right, len(ends), min(width, len(ends))) if ends else 0.0


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


class MethodScore(Frozen):
    """One method, in per cent."""

    score: float
    ci: tuple[float, float]
    """The 95 % interval, by bootstrap over instances."""
    gap_closed: float | None
    """The share of the gap from random to oracle; None if there is no gap."""
    gap_closed_ci: tuple[float, float]


class CurvePoint(Frozen):
    """A figure's points at `k` candidates per instance, in per cent."""

    k: int
    coverage: float
    scores: Mapping[str, float]


class Calibration(Frozen):
    """Calibration of the fitted confidence, on repositories that it was not fitted on."""

    error: float
    """Expected calibration error, 0 to 1, over ten equal ranges."""
    by_chance: float
    """The mean error that a perfectly calibrated confidence would show on this many instances."""
    stated: float
    """The mean confidence; compared with `right` it shows a bias."""
    right: float
    brier: float
    """The mean squared distance of confidence and outcome (Brier 1950); needs no ranges."""
    curve: tuple[CalibrationBin, ...]


class LocationScore(Frozen):
    """In per cent of the instances that have such an answer."""

    instances: int
    """Or edits, where several of one instance count."""
    file: float
    """Every file that the reference edit changes is named."""
    function: float | None
    """Every change of it lies in a definition that is named, or on named lines outside of all; None
    where the code around edits is not known."""
    functions: int
    """The instances, or edits, that `function` covers: those with known code."""
    chunk: float
    """Every change of it touches lines that are named."""


class StrategyScore(Frozen):
    """One of SWE-Reasoner's strategies with one budget."""

    strategy: str
    budget: int
    """Edits drawn for each instance."""
    instances: int
    score: float
    """In per cent of these instances."""
    dollars: float | None = None
    """Mean US dollars an instance for tests, edits and a search; None if some run's are unknown."""


class Report(Frozen):
    """One evaluation. Scores are in per cent of instances."""

    instances: int
    members: int
    random: float
    oracle: float
    best_member: float
    best_member_name: str
    member_scores: Mapping[str, float]
    methods: Mapping[str, MethodScore]
    calibration: Mapping[str, Calibration] = {}
    """By method."""
    curve: tuple[CurvePoint, ...] = ()
    serial: Mapping[str, tuple[float, ...]] = {}
    """Coverage after 1, 2, 3 … edits of each machine, by the number of machines; runs only."""
    serial_voted: Mapping[str, tuple[float, ...]] = {}
    """The score of majority voting after 1, 2, 3 … edits, if tests voted on every edit."""
    dollars: Mapping[str, tuple[tuple[float, float], ...]] = {}
    """Mean US dollars an instance and coverage after 1, 2, 3 … replies of each editing machine, by
    the number of samples; runs only."""
    recall: Mapping[int, float] = {}
    """The share of instances whose files of the reference edit fit into so many tokens of the
    ranked context; runs only."""
    compressions: tuple[float, ...] = ()
    """Tokens searched over tokens shown, by run; runs only."""
    localisation: Mapping[str, LocationScore] = {}
    """How often the places of the reference edit were named, by what named them."""
    strategies: tuple[StrategyScore, ...] = ()
    stages: Mapping[str, float] = {}
    """The share of instances that context, generation and selection each get right; runs only."""


def assemble(
    *,
    members: Mapping[str, Sequence[float]],
    methods: Mapping[str, Sequence[float]],
    stated: Mapping[str, Sequence[tuple[float, float]]] = MappingProxyType({}),
    points: Sequence[CurvePoint] = (),
) -> Report:
    """Assemble a report from per-instance results, each 0 to 1, all in the same order.

    `random` is the mean over all members, including those without an edit; `oracle` counts an
    instance if any member resolves it.
    """
    rows = list(zip(*members.values(), strict=True))
    lowest = [fmean(row) for row in rows]
    highest = [max(row) for row in rows]
    alone = {name: percent(values) for name, values in members.items()}
    first = max(alone, key=lambda name: alone[name])
    return Report(
        instances=len(rows),
        members=len(members),
        random=percent(lowest),
        oracle=percent(highest),
        best_member=alone[first],
        best_member_name=first,
        member_scores=alone,
        methods={name: score_method(values, lowest, highest) for name, values in methods.items()},
        calibration={name: calibrate(found) for name, found in stated.items() if found},
        curve=tuple(points),
    )


def score_method(
    values: Sequence[float], lowest: Sequence[float], highest: Sequence[float]
) -> MethodScore:
    """The score of one method from per-instance results, beside those of chance and oracle."""
    return MethodScore(
        score=percent(values),
        ci=interval(values),
        gap_closed=gap_closed(percent(values), percent(lowest), percent(highest)),
        gap_closed_ci=gap_interval(values, lowest, highest),
    )


def calibrate(stated: Sequence[StatedOutcome]) -> Calibration:
    """How far stated probabilities and outcomes differ. Needs at least one."""
    bins = reliability_curve(stated)
    return Calibration(
        error=calibration_error(bins),
        by_chance=chance_error([confidence for confidence, _ in stated]),
        stated=fmean(confidence for confidence, _ in stated),
        right=fmean(right for _, right in stated),
        brier=brier_score(stated),
        curve=tuple(bins),
    )
