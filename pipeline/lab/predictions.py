"""Evaluation cases: an instance's normalised candidates, with their members' records."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

from pipeline.evaluation.dataset import Dataset, Instance
from pipeline.selection.normalise.canonical import CanonicalEdit, normalise
from pipeline.selection.scoring.features import TextEvidence, compute_text_evidence

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
        """The evidence without the members' identities."""
        return compute_text_evidence(self.forms, self.instance.problem_statement)

    @cached_property
    def evidence_with_records(self) -> TextEvidence:
        """The evidence with the members' records on other repositories."""
        return compute_text_evidence(self.forms, self.instance.problem_statement, self.record)


class CanonicalEdits:
    """The normalised edits of a dataset, each computed once."""

    def __init__(self, data: Dataset) -> None:
        self._data = data
        self._forms: dict[tuple[str, str], CanonicalEdit] = {}

    def get(self, member: str, instance: str) -> CanonicalEdit:
        key = (member, instance)
        if key not in self._forms:
            self._forms[key] = normalise(self._data.patches[member][instance])
        return self._forms[key]

    def add(self, case: EnsembleCase) -> None:
        """Add forms that are known already."""
        for member, form in zip(case.members, case.forms, strict=True):
            self._forms[member, case.instance.instance_id] = form


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


def case_of(
    data: Dataset,
    forms: CanonicalEdits,
    known: MemberRecords,
    instance: Instance,
    members: Sequence[str],
) -> EnsembleCase:
    """The case of one instance, with those of `members` that have an edit for it."""
    name = instance.instance_id
    given = tuple(m for m in members if name in data.patches[m])
    return EnsembleCase(
        instance=instance,
        members=given,
        diffs=tuple(data.patches[m][name] for m in given),
        forms=tuple(forms.get(m, name) for m in given),
        right=tuple(data.is_right(m, name) for m in given),
        record=tuple(known[instance.repo][m] for m in given),
    )


def cases(data: Dataset) -> list[EnsembleCase]:
    """All instances, in order; one without any edit has no members."""
    forms, known = CanonicalEdits(data), member_records(data)
    return [case_of(data, forms, known, i, data.members) for i in data.instances]
