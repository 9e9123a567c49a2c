"""Evaluates selection methods on members' predictions (CodeMonkeys, section 2.3.1, Table 2)."""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean

from pipeline.evaluation.cases import CanonicalEdits, EnsembleCase, case_of, cases, member_records
from pipeline.evaluation.dataset import Dataset
from pipeline.evaluation.methods import (
    CONFIDENCE_POINTS,
    METHODS,
    Method,
    chance_of_right,
    majority,
    support_medoid,
)
from pipeline.evaluation.scoring import CurvePoint, Report, assemble
from pipeline.evaluation.statistics import coverage_at_k

DRAWS = 5
"""Random ensembles of each size for the curve, per instance."""
CURVE: Mapping[str, Method] = {
    "majority": majority,
    "majority, ties to medoid": support_medoid,
}


@dataclass(frozen=True)
class Evaluation:
    report: Report
    chosen: Mapping[str, tuple[tuple[str, str], ...]]
    """By method: instance to chosen diff; ties go to the first. Empty: no edit."""


def evaluate(data: Dataset, methods: Mapping[str, Method] = METHODS) -> Evaluation:
    """Evaluate every method on every instance of `data`; returns the report and the choices."""
    found = cases(data)
    results = {
        name: [chance_of_right(case, method) for case in found] for name, method in methods.items()
    }
    sure = {
        name: [point for case in found if (point := state(case))]
        for name, state in CONFIDENCE_POINTS.items()
    }
    members = {
        member: [float(data.is_right(member, i.instance_id)) for i in data.instances]
        for member in data.members
    }
    report = assemble(
        members=members, methods=results, stated=sure, points=_scaling_curve(data, found)
    )
    chosen = {
        name: tuple((case.instance.instance_id, _first_choice(case, method)) for case in found)
        for name, method in methods.items()
    }
    return Evaluation(report, chosen)


def _first_choice(case: EnsembleCase, method: Method) -> str:
    return case.diffs[next(iter(method(case)))] if case.members else ""


def _scaling_curve(data: Dataset, found: Sequence[EnsembleCase]) -> list[CurvePoint]:
    """Coverage and scores with 1, 2, 3, 5, 8 … of the members, drawn at random (Figure 5)."""
    draw = random.Random(0)  # noqa: S311
    forms, known = CanonicalEdits(data), member_records(data)
    for case in found:
        forms.add(case)
    points: list[CurvePoint] = []
    for k in _ensemble_sizes(len(data.members)):
        covered = [
            coverage_at_k(
                sum(data.is_right(m, i.instance_id) for m in data.members), len(data.members), k
            )
            for i in data.instances
        ]
        results: dict[str, list[float]] = {name: [] for name in CURVE}
        for instance in data.instances:
            for _ in range(DRAWS):
                some = draw.sample(data.members, k)
                case = case_of(data, forms, known, instance, some)
                for name, method in CURVE.items():
                    results[name].append(chance_of_right(case, method))
        means = {name: 100 * fmean(values) for name, values in results.items()}
        points.append(CurvePoint(k=k, coverage=100 * fmean(covered), scores=means))
    return points


def _ensemble_sizes(most: int) -> list[int]:
    return [k for k in (1, 2, 3, 5, 8, 13, 21, 34) if k < most] + [most]
