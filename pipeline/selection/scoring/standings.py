"""All that is known of the candidates for one issue, beside each other, before anyone chooses."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TypeVar

from pipeline.selection.normalise.canonical import normalise
from pipeline.selection.scoring.confidence import log_odds, ranking, sigmoid, weights_for
from pipeline.selection.scoring.execution import script_odds, suite_odds, voting_tests
from pipeline.selection.scoring.features import TextEvidence, compute_text_evidence
from pipeline.selection.voting import reproducing_tests, run_outcome
from pipeline.types import Standing, VoteTable, replace

T = TypeVar("T")


@dataclass(frozen=True)
class Standings:
    """Candidates, tests, and how each candidate stands. The table may hold no test at all."""

    table: VoteTable
    entries: tuple[Standing, ...]
    voters: tuple[int, ...]
    """The tests that vote."""
    text_evidence: TextEvidence
    """What the edits' text says."""
    repository: str

    def reproduces(self, candidate: int) -> bool:
        """Whether it passes a test that reports the issue on the unedited code and is steady."""
        tests = set(reproducing_tests(self.table)) - set(self.table.flaky)
        return any(self.table.runs[candidate][test].passed for test in tests)

    def breaks(self, candidate: int) -> bool:
        """Whether it is known to break tests of the repository."""
        return bool(self.entries[candidate].broken)

    def confidence(self, candidate: int) -> float:
        """The probability, 0 to 1, that the candidate is right: fitted text, assumed executions."""
        weights = weights_for(self.repository)
        text = log_odds(self.text_evidence, weights, candidate)
        return sigmoid(text + self.entries[candidate].execution)

    def with_results(
        self,
        *,
        broken: Mapping[int, Sequence[str]] | None = None,
        rewards: Mapping[int, float] | None = None,
    ) -> Standings:
        """With more known of some candidates: the repository's tests that they break, and rewards.

        What is known of one holds for all whose diff is the same.
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
    table: VoteTable, *, issue: str, repository: str = "", all_tests: bool = False
) -> Standings:
    """How the candidates of `table` stand by votes, by what is equal, and by their text.

    `issue` is its title and body. Takes time that grows with the size of all edits: call it from a
    thread where others wait.
    """
    tests = voting_tests(table, all_tests=all_tests)
    forms = [normalise(candidate.patch.diff) for candidate in table.candidates]
    text = compute_text_evidence(forms, issue)
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
    return Standings(table, standings, tests, text, repository)


def _first_with_same_behaviour(table: VoteTable) -> list[int]:
    """Of each candidate the first one with which every steady test ends in the same way."""
    steady = [test for test in range(len(table.tests)) if test not in table.flaky]
    first: dict[tuple[str, ...], int] = {}
    return [
        first.setdefault(tuple(run_outcome(runs[test]) for test in steady), c)
        for c, runs in enumerate(table.runs)
    ]


def _value_for_same_diff(table: VoteTable, candidate: int, known: Mapping[int, T]) -> T | None:
    diff = table.candidates[candidate].patch.diff
    return next((v for c, v in known.items() if table.candidates[c].patch.diff == diff), None)
