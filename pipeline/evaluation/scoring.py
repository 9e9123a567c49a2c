"""The papers' tables from cases: random, oracle, best member and every method, with intervals."""

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
    """95 %, bootstrap over instances."""
    gap_closed: float | None
    """Of the way from random to oracle; None when these are the same."""
    gap_closed_ci: tuple[float, float]


class CurvePoint(Frozen):
    """A figure's points at `k` candidates an instance, in per cent."""

    k: int
    coverage: float
    scores: Mapping[str, float]


class Calibration(Frozen):
    """Of the fitted confidence, on instances of repositories it was not fitted on."""

    error: float
    """Expected calibration error, 0 to 1, over ten equal ranges."""
    by_chance: float
    """The mean error that a perfectly calibrated confidence would show on as many instances."""
    stated: float
    """The mean confidence; beside `right` it shows a bias, whatever the ranges."""
    right: float
    """The share of choices that are right."""
    brier: float
    """The mean squared distance of confidence and outcome (Brier 1950); needs no ranges."""
    curve: tuple[CalibrationBin, ...]


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
    """By the method whose choice is meant."""
    curve: tuple[CurvePoint, ...] = ()
    serial: Mapping[str, tuple[float, ...]] = {}
    """Coverage after 1, 2, 3 … edits of each machine, by the number of machines; runs only."""
    serial_voted: Mapping[str, tuple[float, ...]] = {}
    """As `serial`, the score of majority voting with tests; where runs voted on every edit."""
    stages: Mapping[str, float] = {}
    """How far context, generation and selection get; runs only."""


def assemble(
    *,
    members: Mapping[str, Sequence[float]],
    methods: Mapping[str, Sequence[float]],
    stated: Mapping[str, Sequence[tuple[float, float]]] = MappingProxyType({}),
    points: Sequence[CurvePoint] = (),
) -> Report:
    """The report of per-instance results, each 0 to 1 and all in the same order of instances.

    `random` is the mean over all members, those that gave no edit included, as the mean of their
    own scores is; `oracle` counts an instance that any member resolves.
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
