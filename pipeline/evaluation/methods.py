"""The ways of choosing that are compared. Each says which candidates it cannot tell apart."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from statistics import fmean
from types import MappingProxyType

from pipeline.evaluation.cases import Case
from pipeline.selection.scoring.clusters import best, means
from pipeline.selection.scoring.confidence import choose, confidence, weights_for

Method = Callable[[Case], Sequence[int]]
"""The equally preferred candidates of a case that has at least one."""


def majority(case: Case) -> Sequence[int]:
    """Most candidates equal after normalisation (Agentless's voting)."""
    most = case.evidence.groups[0].support
    return [m for g in case.evidence.groups if g.support == most for m in g.members]


def medoid(case: Case) -> Sequence[int]:
    """Most like all others, by tokens."""
    return best(range(len(case.members)), means(case.evidence.alike["tokens"]))


def shortest(case: Case) -> Sequence[int]:
    """The shortest diff."""
    return best(range(len(case.diffs)), [-float(len(diff)) for diff in case.diffs])


def support_medoid(case: Case) -> Sequence[int]:
    """`majority`, ties to the one most like all others."""
    return best(majority(case), means(case.evidence.alike["tokens"]))


def record(case: Case) -> Sequence[int]:
    """The member that resolves most in other repositories."""
    return best(range(len(case.members)), case.record)


def support_record(case: Case) -> Sequence[int]:
    """`majority`, ties to the member that resolves most in other repositories."""
    return best(majority(case), case.record)


def fitted(case: Case) -> Sequence[int]:
    """The fitted ranking, which does not know the members."""
    return choose(case.evidence, weights_for(case.instance.repo))


def fitted_record(case: Case) -> Sequence[int]:
    """The fitted ranking with the members' records in other repositories."""
    return choose(case.recorded, weights_for(case.instance.repo, "record"))


METHODS: Mapping[str, Method] = MappingProxyType(
    {
        "shortest diff": shortest,
        "majority": majority,
        "similarity medoid": medoid,
        "majority, ties to medoid": support_medoid,
        "confidence": fitted,
        "best record elsewhere": record,
        "majority, ties to best record elsewhere": support_record,
        "confidence with records elsewhere": fitted_record,
    }
)
"""By name, as reports print them. `elsewhere` marks those that read other repositories' labels."""


def expected(case: Case, method: Method) -> float:
    """The chance that the method's choice is right, ties broken by lot; 0 without candidates."""
    return fmean(case.right[c] for c in method(case)) if case.members else 0.0


def stated(case: Case) -> tuple[float, float] | None:
    """The fitted confidence in the choice of `fitted`, and the chance that it is right."""
    if not case.members:
        return None
    return confidence(case.evidence, weights_for(case.instance.repo)), expected(case, fitted)


def stated_record(case: Case) -> tuple[float, float] | None:
    """As `stated`, of `fitted_record`."""
    if not case.members:
        return None
    weights = weights_for(case.instance.repo, "record")
    return confidence(case.recorded, weights), expected(case, fitted_record)


STATED: Mapping[str, Callable[[Case], tuple[float, float] | None]] = MappingProxyType(
    {"confidence": stated, "confidence with records elsewhere": stated_record}
)
"""Of the methods that state a confidence: that, and the chance that the choice is right."""
