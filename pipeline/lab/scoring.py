"""Computes the papers' tables: random, oracle, best member and every method, with intervals."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from statistics import fmean
from types import MappingProxyType

from pipeline.evaluation.calibration import (
    brier_score,
    calibration_error,
    chance_error,
    reliability_curve,
)
from pipeline.evaluation.statistics import gap_closed, gap_interval, interval, percent
from pipeline.selection.scoring.confidence import CalibrationBin
from pipeline.types import Frozen


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
    """The share of choices that are right."""
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
    """The instances, or edits, that `function` is of: those whose code is known."""
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


class DifficultyScore(Frozen):
    """The runs on instances of one difficulty."""

    level: int
    """1: easiest, to 5."""
    instances: int
    output_tokens: float | None = None
    """Mean tokens that the models wrote for an instance; None if some run's are unknown."""
    strategies: tuple[StrategyScore, ...] = ()


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
    compression: float | None = None
    """Mean tokens searched over tokens shown; runs only."""
    localisation: Mapping[str, LocationScore] = {}
    """How often the places of the reference edit were named, by what named them."""
    strategies: tuple[StrategyScore, ...] = ()
    """SWE-Reasoner's strategies by budget; runs only."""
    difficulty: tuple[DifficultyScore, ...] = ()
    """The same by how hard the instances are; runs only, with the results of public systems."""
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
    floor, ceiling = percent(lowest), percent(highest)
    alone = {name: percent(values) for name, values in members.items()}
    first = max(alone, key=lambda name: alone[name])
    return Report(
        instances=len(rows),
        members=len(members),
        random=floor,
        oracle=ceiling,
        best_member=alone[first],
        best_member_name=first,
        member_scores=alone,
        methods={
            name: MethodScore(
                score=percent(values),
                ci=interval(values),
                gap_closed=gap_closed(percent(values), floor, ceiling),
                gap_closed_ci=gap_interval(values, lowest, highest),
            )
            for name, values in methods.items()
        },
        calibration={name: _calibration(found) for name, found in stated.items() if found},
        curve=tuple(points),
    )


def _calibration(stated: Sequence[tuple[float, float]]) -> Calibration:
    bins = reliability_curve(stated)
    return Calibration(
        error=calibration_error(bins),
        by_chance=chance_error([confidence for confidence, _ in stated]),
        stated=fmean(confidence for confidence, _ in stated),
        right=fmean(right for _, right in stated),
        brier=brier_score(stated),
        curve=tuple(bins),
    )
