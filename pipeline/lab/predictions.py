"""Evaluates selection methods on members' predictions."""

import math
import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from statistics import fmean
from types import MappingProxyType

from pipeline.lab.dataset import Dataset, Instance
from pipeline.lab.scoring import CurvePoint, Report, assemble, coverage_at_k
from pipeline.selection.scoring.canonical import CanonicalEdit, normalise
from pipeline.selection.scoring.confidence import choose, confidence, weights_for
from pipeline.selection.scoring.features import TextEvidence, best, compute_text_evidence

_PRIOR = 6.0
"""Pseudo-counts: right and wrong edits that each member starts with."""

MemberRecords = Mapping[str, Mapping[str, float]]
"""By repository: each member's log-odds on all other repositories."""


@dataclass(frozen=True)
class EnsembleCase:
    """One instance, with the members that have an edit for it, in the ensemble's order."""

    instance: Instance
    members: tuple[str, ...]
    diffs: tuple[str, ...]
    forms: tuple[CanonicalEdit, ...]
    right: tuple[bool, ...]
    record: tuple[float, ...]

    @cached_property
    def evidence(self) -> TextEvidence:
        """The evidence, which does not know the members."""
        return compute_text_evidence(self.forms, self.instance.problem_statement)


def member_records(data: Dataset) -> MemberRecords:
    """Each member's log-odds of being right, by repository, from all *other* repositories."""
    result: dict[str, dict[str, float]] = {}
    for repo in {instance.repo for instance in data.instances}:
        others = [i.instance_id for i in data.instances if i.repo != repo]
        result[repo] = {
            member: log_odds_of_right(sum(data.is_right(member, i) for i in others), len(others))
            for member in data.members
        }
    return result


def log_odds_of_right(right: int, of: int) -> float:
    """The log-odds of being right, shrunk a little towards even."""
    return math.log((right + _PRIOR) / (of - right + _PRIOR))


class CaseBuilder:
    """Builds cases of a dataset; each edit is normalised once."""

    def __init__(
        self, data: Dataset, code: Mapping[str, Mapping[str, str]] = MappingProxyType({})
    ) -> None:
        """`code`: by instance, the unedited files that its edits change, as far as they are
        known."""
        self._data = data
        self._code = code
        self._records = member_records(data)
        self._forms: dict[tuple[str, str], CanonicalEdit] = {}

    def build(self, instance: Instance, members: Sequence[str]) -> EnsembleCase:
        """The case of one instance, with the `members` that have an edit for it."""
        name = instance.instance_id
        patches = self._data.patches
        given = tuple(m for m in members if name in patches[m])
        for member in given:
            if (member, name) not in self._forms:
                base = self._code.get(name, {}).get
                self._forms[member, name] = normalise(patches[member][name], base=base)
        return EnsembleCase(
            instance=instance,
            members=given,
            diffs=tuple(patches[m][name] for m in given),
            forms=tuple(self._forms[m, name] for m in given),
            right=tuple(self._data.is_right(m, name) for m in given),
            record=tuple(self._records[instance.repo][m] for m in given),
        )

    def build_all(self) -> list[EnsembleCase]:
        """All instances, in order; one without any edit has no members."""
        return [self.build(one, self._data.members) for one in self._data.instances]


Method = Callable[[EnsembleCase], Sequence[int]]
"""The equally preferred candidates of a case that has at least one."""


def majority(case: EnsembleCase) -> Sequence[int]:
    """The most frequent edit after normalisation (Agentless's voting)."""
    most = case.evidence.groups[0].support
    return [m for g in case.evidence.groups if g.support == most for m in g.members]


def medoid(case: EnsembleCase) -> Sequence[int]:
    """The edit most similar to all others, by tokens."""
    return best(range(len(case.members)), [row["similarity_mean"] for row in case.evidence.rows])


def shortest(case: EnsembleCase) -> Sequence[int]:
    return best(range(len(case.diffs)), [-float(len(diff)) for diff in case.diffs])


def support_medoid(case: EnsembleCase) -> Sequence[int]:
    """`majority`, ties to the edit most similar to all others."""
    return best(majority(case), [row["similarity_mean"] for row in case.evidence.rows])


def record(case: EnsembleCase) -> Sequence[int]:
    """The edit of the member that resolves most in other repositories."""
    return best(range(len(case.members)), case.record)


def support_record(case: EnsembleCase) -> Sequence[int]:
    """`majority`, ties to the member that resolves most in other repositories."""
    return best(majority(case), case.record)


def by_confidence(case: EnsembleCase) -> Sequence[int]:
    """The fitted ranking, which does not know the members."""
    return choose(case.evidence, weights_for(case.instance.repo))


METHODS: Mapping[str, Method] = MappingProxyType(
    {
        "shortest diff": shortest,
        "majority": majority,
        "similarity medoid": medoid,
        "majority, ties to medoid": support_medoid,
        "confidence": by_confidence,
        "best record elsewhere": record,
        "majority, ties to best record elsewhere": support_record,
    }
)
"""By name, as reports print them. `elsewhere` marks those that read other repositories' labels."""


def chance_of_right(case: EnsembleCase, method: Method) -> float:
    """The chance that the method's choice is right, ties broken at random; 0 without candidates."""
    return fmean(case.right[c] for c in method(case)) if case.members else 0.0


def confidence_point(case: EnsembleCase) -> tuple[float, float] | None:
    """The fitted confidence in the choice by it, and the chance that this choice is right."""
    if not case.members:
        return None
    sure = confidence(case.evidence, weights_for(case.instance.repo))
    return sure, chance_of_right(case, by_confidence)


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


def evaluate(
    data: Dataset,
    methods: Mapping[str, Method] = METHODS,
    code: Mapping[str, Mapping[str, str]] = MappingProxyType({}),
) -> Evaluation:
    """Evaluate every method on every instance of `data`; returns the report and the choices.

    `code`: as for `CaseBuilder`.
    """
    builder = CaseBuilder(data, code)
    found = builder.build_all()
    results = {
        name: [chance_of_right(case, method) for case in found] for name, method in methods.items()
    }
    sure = {"confidence": [point for case in found if (point := confidence_point(case))]}
    members = {
        member: [float(data.is_right(member, i.instance_id)) for i in data.instances]
        for member in data.members
    }
    report = assemble(
        members=members, methods=results, stated=sure, points=_scaling_curve(data, builder)
    )
    chosen = {
        name: tuple((case.instance.instance_id, _first_choice(case, method)) for case in found)
        for name, method in methods.items()
    }
    return Evaluation(report, chosen)


def _first_choice(case: EnsembleCase, method: Method) -> str:
    return case.diffs[next(iter(method(case)))] if case.members else ""


def _scaling_curve(data: Dataset, builder: CaseBuilder) -> list[CurvePoint]:
    """Coverage and scores with 1, 2, 3, 5, 8 … of the members, drawn at random (Figure 5)."""
    draw = random.Random(0)  # noqa: S311
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
                case = builder.build(instance, draw.sample(data.members, k))
                for name, method in CURVE.items():
                    results[name].append(chance_of_right(case, method))
        means = {name: 100 * fmean(values) for name, values in results.items()}
        points.append(CurvePoint(k=k, coverage=100 * fmean(covered), scores=means))
    return points


def _ensemble_sizes(most: int) -> list[int]:
    return [k for k in (1, 2, 3, 5, 8, 13, 21, 34) if k < most] + [most]
