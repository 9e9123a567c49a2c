"""The combined evidence about the candidates, in log-odds.

The confidence from the text of the edits is fitted on labelled data (`confidence.py`). The weight
of an execution is a likelihood ratio for each voting test and for the repository's own tests. Those
are counted on executed edits, and drawn towards assumed ones: `ratios.json` says from how many, and
`tests.benchmarks.fitting.fit_ratios` what stays assumed. Tests that one model wrote for one issue
agree in their errors too, so n of them count as `n / (1 + (n - 1) * correlation)`.
"""

from __future__ import annotations

import dataclasses
import math
from collections import Counter
from collections.abc import Collection, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import TypeVar

from pipeline.codebase.unified_diff import list_paths
from pipeline.data.options import Recalibration
from pipeline.data.suite_reports import FurtherScript, Standing
from pipeline.data.types import Candidate, ChecklistPoint, VoteTable
from pipeline.regression.compare import CONTROL
from pipeline.selection.scoring.canonical import BaseText, normalise
from pipeline.selection.scoring.confidence import (
    CalibrationBin,
    log_odds,
    ranking,
    sigmoid,
    weights_for,
)
from pipeline.selection.scoring.features import TextEvidence, compute_independent_evidence
from pipeline.selection.voting import describe_outcome, reproducing_tests, run_outcome
from sandbox.frozen import Frozen, replace


class Rate(Frozen):
    """How often right and wrong edits do something, above 0 and below 1."""

    if_right: float
    if_wrong: float

    def odds(self, does: bool) -> float:
        """The log-odds of being right that doing it adds, or not doing it."""
        if does:
            return math.log(self.if_right / self.if_wrong)
        return math.log((1 - self.if_right) / (1 - self.if_wrong))


class Ratios(Frozen):
    """The likelihood ratios of executions."""

    passes: Rate
    """Passing a script that was written for the issue."""
    breaks: Rate
    """Breaking at least one of the repository's own tests."""
    correlation: float
    """Between scripts for one issue."""

    def script_odds(self, passes: Sequence[bool]) -> float:
        """What scripts add, by whether the edit passes each: n of them count as
        `n / (1 + (n - 1) * correlation)`."""
        total = sum(self.passes.odds(does) for does in passes)
        return total / (1 + max(0, len(passes) - 1) * self.correlation)


class FittedRatios(Frozen):
    """The file of ratios, and what stands behind it."""

    date: str
    data: str
    method: str
    command: str
    fitted: bool
    """False: too few were counted, and `ratios` are the assumed ones."""
    ratios: Ratios
    seen: Ratios
    """As they were counted, without what was assumed; for scripts: halves of reference tests."""
    instances: int
    edits: int
    repositories: int
    errors: dict[str, float]
    """Calibration errors over edits in repositories that the ratios had not seen."""
    curve: tuple[CalibrationBin, ...]
    """The same of the fitted ratios, by stated probability."""


@cache
def load_shipped_ratios() -> FittedRatios:
    """Load the ratios that come with the package."""
    text = (files("pipeline.selection.scoring") / "ratios.json").read_text(encoding="utf-8")
    return FittedRatios.model_validate_json(text)


def voting_tests(table: VoteTable, *, all_tests: bool = False) -> tuple[int, ...]:
    """The voting tests: never flaky or self-serving, and, unless `all_tests`, failing on the
    unedited code as tests of the issue do."""
    tests = range(len(table.tests)) if all_tests else reproducing_tests(table)
    silent = {*table.flaky, *table.self_serving}
    return tuple(test for test in tests if test not in silent)


def script_odds(table: VoteTable, tests: Sequence[int]) -> list[float]:
    """By candidate: the log-odds of being right that passing and failing `tests` adds."""
    ratios = load_shipped_ratios().ratios
    return [ratios.script_odds([runs[test].passed for test in tests]) for runs in table.runs]


def suite_odds(broken: Collection[str] | None, outdated: Collection[str] = ()) -> float:
    """The log-odds that the repository's own tests add, `outdated` ones aside; 0 if they did not
    run."""
    if broken is None:
        return 0.0
    return load_shipped_ratios().ratios.breaks.odds(not set(outdated).issuperset(broken))


def find_outdated(edits: Iterable[tuple[Hashable, Collection[str]]]) -> frozenset[str]:
    """Tests of the repository that probably ask for what the issue changes: at least two different
    edits break them, and half of all.

    `edits` are those that fix what was seen of the issue, each with a key of its code and the tests
    that it breaks. Of `tests/benchmarks/fitting/executions.jsonl.gz`, right edits seldom break any
    others.
    """
    known = dict(edits)
    counts = Counter(test for broken in known.values() for test in set(broken) - {CONTROL})
    return frozenset(test for test, count in counts.items() if count >= max(2, len(known) / 2))


T = TypeVar("T")


@dataclass(frozen=True)
class Standings:
    """Candidates, tests, and each candidate's standing. The table may hold no tests."""

    table: VoteTable
    entries: tuple[Standing, ...]
    voters: tuple[int, ...]
    """The tests that vote, by their index in the table."""
    text_evidence: TextEvidence
    repository: str
    recalibration: Recalibration | None = None
    reward_weight: float = 1
    """How much of a reward counts in the log-odds."""
    outdated: frozenset[str] = frozenset()
    """Tests that count against no edit (see `find_outdated`)."""

    def reproduces(self, candidate: int) -> bool:
        """Whether it passes a steady test that reports the issue on the unedited code."""
        tests = set(reproducing_tests(self.table)) - set(self.table.flaky)
        return any(self.table.runs[candidate][test].passed for test in tests)

    def split_by(self, script: FurtherScript) -> Standings:
        """The same where edits with which `script` ends differently no longer behave alike; one
        with which it did not run stays with those that it behaves like, if they end alike."""
        diffs = [one.patch.diff for one in self.table.candidates]
        ran = zip(script.candidates, script.runs, strict=True)
        ends = {diffs[c]: run_outcome(run) for c, run in ran}
        groups: dict[int, set[str]] = {one.behaves_as: set() for one in self.entries}
        for one, diff in zip(self.entries, diffs, strict=True):
            groups[one.behaves_as].update([ends[diff]] if diff in ends else [])

        def find_end(one: Standing, diff: str) -> str | None:
            alike = groups[one.behaves_as]
            return ends.get(diff, next(iter(alike)) if len(alike) == 1 else None)

        return self.split_alike([*map(find_end, self.entries, diffs)])

    def split_alike(self, ends: Sequence[str | None]) -> Standings:
        """The same where edits behave alike only if `ends`, one for each candidate, are equal."""
        keys = [(one.behaves_as, end) for one, end in zip(self.entries, ends, strict=True)]
        entries = tuple(
            replace(one, behaves_as=keys.index(key))
            for one, key in zip(self.entries, keys, strict=True)
        )
        return dataclasses.replace(self, entries=entries)

    def broken_by(self, candidate: int) -> list[str]:
        """The tests of the repository that it is known to break and that are not outdated."""
        return [t for t in self.entries[candidate].broken or () if t not in self.outdated]

    def breaks(self, candidate: int) -> bool:
        """Whether it is known to break tests of the repository that are not outdated."""
        return bool(self.broken_by(candidate))

    def confidence(self, candidate: int) -> float:
        """The probability, 0 to 1, that the candidate is right: text (fitted), executions (see
        `ratios`) and the repository's own history (fitted), if there is enough."""
        weights = weights_for(self.repository)
        text = log_odds(self.text_evidence, weights, candidate)
        shift = self.recalibration.shift if self.recalibration else 0.0
        return sigmoid(text + self.entries[candidate].execution + shift)

    def with_checklist(self, checklist: Sequence[ChecklistPoint]) -> Standings:
        """The same with how much of `checklist` each candidate touches."""
        entries = tuple(
            replace(entry, covers=sum(point.weight for point in checklist if point.path in paths))
            for entry, one in zip(self.entries, self.table.candidates, strict=True)
            for paths in [list_paths(one.patch.diff)]
        )
        return dataclasses.replace(self, entries=entries)

    def with_results(
        self,
        *,
        broken: Mapping[int, Sequence[str]] | None = None,
        rewards: Mapping[int, float] | None = None,
    ) -> Standings:
        """Add results for some candidates: the repository's tests that they break, and rewards.

        A result holds for all candidates with the same diff.
        """
        new = list(self.entries)
        for c, old in enumerate(self.entries):
            names = _value_for_same_diff(self.table, c, broken or {})
            reward = _value_for_same_diff(self.table, c, rewards or {})
            if names is not None and old.broken is None:
                new[c] = replace(old, broken=tuple(names))
            if reward is not None:
                new[c] = replace(new[c], reward=reward)
        outdated = find_outdated(
            (one.same_as, one.broken)
            for c, one in enumerate(new)
            if one.broken is not None and self.reproduces(c)
        )
        entries = tuple(
            replace(one, execution=told + suite_odds(one.broken, outdated))
            for told, one in zip(script_odds(self.table, self.voters), new, strict=True)
        )
        return dataclasses.replace(self, entries=entries, outdated=outdated)


def build_standings(
    table: VoteTable,
    *,
    issue: str,
    repository: str = "",
    all_tests: bool = False,
    recalibration: Recalibration | None = None,
    reward_weight: float = 1,
    base: BaseText | None = None,
) -> Standings:
    """Compute the standings of the candidates of `table` from votes, equality and text.

    `issue` is its title and body, `base` the texts of the unedited files. The time grows with the
    total size of the edits: call it from a thread if other work waits.
    """
    tests = voting_tests(table, all_tests=all_tests)
    forms = [normalise(candidate.patch.diff, base=base) for candidate in table.candidates]
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
    return Standings(table, standings, tests, text, repository, recalibration, reward_weight)


def _find_sources(candidates: Sequence[Candidate], keys: Sequence[str]) -> list[Hashable]:
    """What tells independent sources apart, for each candidate; `keys` are the same for equal code.

    Where all have the same origin, each sample is a source. One that was shown an edit and wrote
    the same code does not agree with it: it is not a further source.
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
    """By candidate: the first candidate with which every steady test ends in the same way, and
    prints the same of each case."""
    steady = [test for test in range(len(table.tests)) if test not in table.flaky]
    first: dict[tuple[tuple[str, ...], ...], int] = {}
    return [
        first.setdefault(tuple(describe_outcome(runs[test]) for test in steady), c)
        for c, runs in enumerate(table.runs)
    ]


def _value_for_same_diff(table: VoteTable, candidate: int, known: Mapping[int, T]) -> T | None:
    diff = table.candidates[candidate].patch.diff
    return next((v for c, v in known.items() if table.candidates[c].patch.diff == diff), None)
