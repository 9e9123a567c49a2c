"""The selection methods that are compared. Each returns the candidates that it prefers equally."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from statistics import fmean
from types import MappingProxyType

from pipeline.evaluation.cases import EnsembleCase
from pipeline.selection.scoring.clusters import best, means
from pipeline.selection.scoring.confidence import choose, confidence, weights_for

Method = Callable[[EnsembleCase], Sequence[int]]
"""The equally preferred candidates of a case that has at least one."""


def majority(case: EnsembleCase) -> Sequence[int]:
    """The most frequent edit after normalisation (Agentless's voting)."""
    most = case.evidence.groups[0].support
    return [m for g in case.evidence.groups if g.support == most for m in g.members]


def medoid(case: EnsembleCase) -> Sequence[int]:
    """The edit most similar to all others, by tokens."""
    return best(range(len(case.members)), means(case.evidence.similarity["tokens"]))


def shortest(case: EnsembleCase) -> Sequence[int]:
    """The shortest diff."""
    return best(range(len(case.diffs)), [-float(len(diff)) for diff in case.diffs])


def support_medoid(case: EnsembleCase) -> Sequence[int]:
    """`majority`, ties to the edit most similar to all others."""
    return best(majority(case), means(case.evidence.similarity["tokens"]))


def record(case: EnsembleCase) -> Sequence[int]:
    """The edit of the member that resolves most in other repositories."""
    return best(range(len(case.members)), case.record)


def support_record(case: EnsembleCase) -> Sequence[int]:
    """`majority`, ties to the member that resolves most in other repositories."""
    return best(majority(case), case.record)


def by_confidence(case: EnsembleCase) -> Sequence[int]:
    """The fitted ranking, which does not know the members."""
    return choose(case.evidence, weights_for(case.instance.repo))


def by_confidence_with_records(case: EnsembleCase) -> Sequence[int]:
    """The fitted ranking with the members' records in other repositories."""
    return choose(case.evidence_with_records, weights_for(case.instance.repo, "record"))


METHODS: Mapping[str, Method] = MappingProxyType(
    {
        "shortest diff": shortest,
        "majority": majority,
        "similarity medoid": medoid,
        "majority, ties to medoid": support_medoid,
        "confidence": by_confidence,
        "best record elsewhere": record,
        "majority, ties to best record elsewhere": support_record,
        "confidence with records elsewhere": by_confidence_with_records,
    }
)
"""By name, as reports print them. `elsewhere` marks those that read other repositories' labels."""


def chance_of_right(case: EnsembleCase, method: Method) -> float:
    """The chance that the method's choice is right, ties broken at random; 0 without candidates."""
    return fmean(case.right[c] for c in method(case)) if case.members else 0.0


def confidence_point(case: EnsembleCase) -> tuple[float, float] | None:
    """The fitted confidence in the choice of `by_confidence`, and the chance that it is right."""
    if not case.members:
        return None
    return confidence(case.evidence, weights_for(case.instance.repo)), chance_of_right(
        case, by_confidence
    )


def confidence_point_with_records(case: EnsembleCase) -> tuple[float, float] | None:
    """The fitted confidence in the choice of `by_confidence_with_records`, and its chance."""
    if not case.members:
        return None
    weights = weights_for(case.instance.repo, "record")
    return confidence(case.evidence_with_records, weights), chance_of_right(
        case, by_confidence_with_records
    )


CONFIDENCE_POINTS: Mapping[str, Callable[[EnsembleCase], tuple[float, float] | None]] = (
    MappingProxyType(
        {
            "confidence": confidence_point,
            "confidence with records elsewhere": confidence_point_with_records,
        }
    )
)
"""By method that states a confidence: the confidence, and the chance that the choice is right."""
