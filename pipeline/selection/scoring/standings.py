"""The combined evidence about the candidates for one issue, before the choice."""

from __future__ import annotations

import dataclasses
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeVar

from pipeline.options import Recalibration
from pipeline.selection.normalise.canonical import normalise
from pipeline.selection.scoring.confidence import log_odds, ranking, sigmoid, weights_for
from pipeline.selection.scoring.execution import script_odds, suite_odds, voting_tests
from pipeline.selection.scoring.features import TextEvidence, compute_independent_evidence
from pipeline.selection.voting import reproducing_tests, run_outcome
from pipeline.types import Candidate, Standing, VoteTable, replace

T = TypeVar("T")


@dataclass(frozen=True)
class Standings:
    """Candidates, tests, and each candidate's standing. The table may hold no tests."""

    table: VoteTable
    entries: tuple[Standing, ...]
    voters: tuple[int, ...]
    """The voting tests."""
    text_evidence: TextEvidence
    """The evidence in the edits' text."""
    repository: str
    recalibration: Recalibration | None = None

    def reproduces(self, candidate: int) -> bool:
        """Whether it passes a steady test that reports the issue on the unedited code."""
        tests = set(reproducing_tests(self.table)) - set(self.table.flaky)
        return any(self.table.runs[candidate][test].passed for test in tests)

    def breaks(self, candidate: int) -> bool:
        """Whether it is known to break tests of the repository."""
        return bool(self.entries[candidate].broken)

    def confidence(self, candidate: int) -> float:
        """The probability, 0 to 1, that the candidate is right: text (fitted), executions (see
        `ratios`) and the repository's own history (fitted), if there is enough."""
        weights = weights_for(self.repository)
        text = log_odds(self.text_evidence, weights, candidate)
        shift = self.recalibration.shift if self.recalibration else 0.0
        return sigmoid(text + self.entries[candidate].execution + shift)

    def with_results(
        self,
        *,
        broken: Mapping[int, Sequence[str]] | None = None,
        rewards: Mapping[int, float] | None = None,
    ) -> Standings:
        """Add results for some candidates: the repository's tests that they break, and rewards.

        A result holds for all candidates with the same diff.
        """

        def with_result(c: int, old: Standing) -> Standing:
            names = _value_for_same_diff(self.table, c, broken or {})
            reward = _value_for_same_diff(self.table, c, rewards or {})
            new = old
            if names is not None and old.broken is None:
                odds = old.execution + suite_odds(names)
                new = replace(new, broken=tuple(names), execution=odds)
            if reward is not None:
                new = replace(new, reward=reward)
            return new

        standings = tuple(with_result(c, old) for c, old in enumerate(self.entries))
        return dataclasses.replace(self, entries=standings)


def build_standings(
    table: VoteTable,
    *,
    issue: str,
    repository: str = "",
    all_tests: bool = False,
    recalibration: Recalibration | None = None,
) -> Standings:
    """Compute the standings of the candidates of `table` from votes, equality and text.

    `issue` is its title and body. The time grows with the total size of the edits: call it from a
    thread if other work waits.
    """
    tests = voting_tests(table, all_tests=all_tests)
    forms = [normalise(candidate.patch.diff) for candidate in table.candidates]
    sources = _find_sources(table.candidates, [form.key for form in forms])
    text = compute_independent_evidence(forms, sources, issue)
    prior = ranking(text, weights_for(repository))
    odds = script_odds(table, tests)
    groups = {member: group for group in text.groups for member in group.members}
    behaviour = _first_with_same_behaviour(table)
    standings = tuple(
        Standing(
            votes=table.votes(c),
            passes=sum(table.runs[c][test].passed for test in tests),
            support=groups[c].support,
            same_as=groups[c].members[0],
            behaves_as=behaviour[c],
            execution=odds[c],
            prior=prior[c],
        )
        for c in range(len(table.candidates))
    )
    return Standings(table, standings, tests, text, repository, recalibration)


def _find_sources(candidates: Sequence[Candidate], keys: Sequence[str]) -> list[Hashable]:
    """What tells independent sources apart, for each candidate; `keys` are the same for equal code.

    Where all have the same origin, each sample is a source. One that was shown an edit and wrote
    the same code does not agree with it: it is no further source.
    """
    origins: list[Hashable] = [candidate.origin for candidate in candidates]
    if len(set(origins)) < 2:
        origins = list(range(len(candidates)))
    places = {candidate.sample: c for c, candidate in enumerate(candidates)}
    for c, candidate in enumerate(candidates):
        shown = (places[sample] for sample in candidate.informed_by if sample in places)
        same = next((other for other in shown if keys[other] == keys[c]), None)
        if same is not None:
            origins[c] = origins[same]
    return origins


def _first_with_same_behaviour(table: VoteTable) -> list[int]:
    """By candidate: the first candidate with which every steady test ends in the same way."""
    steady = [test for test in range(len(table.tests)) if test not in table.flaky]
    first: dict[tuple[str, ...], int] = {}
    return [
        first.setdefault(tuple(run_outcome(runs[test]) for test in steady), c)
        for c, runs in enumerate(table.runs)
    ]


def _value_for_same_diff(table: VoteTable, candidate: int, known: Mapping[int, T]) -> T | None:
    diff = table.candidates[candidate].patch.diff
    return next((v for c, v in known.items() if table.candidates[c].patch.diff == diff), None)
