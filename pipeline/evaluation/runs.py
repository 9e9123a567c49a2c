"""Evaluates ways of choosing among the candidates of finished runs (CodeMonkeys, Figure 6)."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean
from types import MappingProxyType

from pipeline.evaluation.bundles import FinishedRun
from pipeline.evaluation.dataset import BadData
from pipeline.evaluation.predictions import Evaluation
from pipeline.evaluation.scoring import Point, Report, assemble
from pipeline.evaluation.statistics import coverage
from pipeline.selection.clusters import best, medoid
from pipeline.selection.confidence import choose, confidence, weights_for
from pipeline.selection.features import Evidence, weigh
from pipeline.selection.normalise import normalise
from pipeline.selection.voting import reporting


@dataclass(frozen=True)
class RunCase:
    """A run's candidates with the verdict on each."""

    run: FinishedRun
    evidence: Evidence
    right: tuple[bool, ...]

    @property
    def votes(self) -> list[float]:
        """How many tests each candidate passes, as the paper counts them."""
        table = self.run.table
        return [float(table.votes(c)) if table else 0.0 for c in range(len(self.right))]


def all_tests(case: RunCase) -> Sequence[int]:
    """Most tests passed, all tests counted (CodeMonkeys, section 2.3, method 1)."""
    return best(range(len(case.right)), case.votes)


def top_three(case: RunCase) -> Sequence[int]:
    """By lot among the three that pass most tests, ties to the shorter diff (its methods 3, 4)."""
    table = case.run.table
    return table.leaders(3) if table else range(len(case.right))


def reporting_tests(case: RunCase) -> Sequence[int]:
    """Most tests passed of those that fail on the unedited code."""
    table = case.run.table
    tests = reporting(table) if table else []
    passed = [
        float(sum(table.runs[c][t].passed for t in tests)) if table else 0.0
        for c in range(len(case.right))
    ]
    return best(range(len(case.right)), passed)


def tests_then_support(case: RunCase) -> Sequence[int]:
    """`reporting_tests`, ties to the fitted ranking."""
    pool = reporting_tests(case)
    chosen = set(choose(case.evidence, weights_for(None)))
    return [c for c in pool if c in chosen] or pool


def majority(case: RunCase) -> Sequence[int]:
    """Most candidates equal after normalisation."""
    most = case.evidence.groups[0].support
    return [m for g in case.evidence.groups if g.support == most for m in g.members]


def similar(case: RunCase) -> Sequence[int]:
    """Most like all others."""
    return medoid([normalise(c.patch.diff) for c in case.run.candidates])


def fitted(case: RunCase) -> Sequence[int]:
    """The fitted ranking."""
    return choose(case.evidence, weights_for(None))


METHODS: Mapping[str, Callable[[RunCase], Sequence[int]]] = MappingProxyType(
    {
        "majority voting with tests": all_tests,
        "top 3 by tests": top_three,
        "tests that report the issue": reporting_tests,
        "tests that report the issue, ties to confidence": tests_then_support,
        "majority": majority,
        "similarity medoid": similar,
        "confidence": fitted,
    }
)


def evaluate_runs(runs: Sequence[FinishedRun], resolved: Mapping[str, Sequence[int]]) -> Evaluation:
    """Every method on every run. `resolved` lists, by instance, the samples that resolve it.

    Raises:
        BadData: a run has no labels.
    """
    cases: list[RunCase] = []
    for run in runs:
        if run.instance not in resolved:
            raise BadData(f"There are no labels for the run {run.instance}.")
        right = tuple(c.sample in resolved[run.instance] for c in run.candidates)
        forms = [normalise(c.patch.diff) for c in run.candidates]
        cases.append(RunCase(run, weigh(forms, run.issue), right))
    return Evaluation(_report(cases), _chosen(cases))


def _report(cases: Sequence[RunCase]) -> Report:
    stated = [
        (confidence(case.evidence, weights_for(None)), _expected(case, fitted))
        for case in cases
        if case.right
    ]
    samples = sorted({c.sample for case in cases for c in case.run.candidates})
    members = {f"sample {s}": [_sample(case, s) for case in cases] for s in samples}
    methods = {name: [_expected(case, m) for case in cases] for name, m in METHODS.items()}
    most = max((len(case.right) for case in cases), default=0)
    return assemble(
        members=members or {"none": [0.0 for _ in cases]},
        methods=methods,
        stated={"confidence": stated},
        points=[_point(cases, k) for k in range(1, most + 1)],
    )


def _sample(case: RunCase, sample: int) -> float:
    verdicts = zip(case.run.candidates, case.right, strict=True)
    return float(any(right for c, right in verdicts if c.sample == sample))


def _expected(case: RunCase, method: Callable[[RunCase], Sequence[int]]) -> float:
    return fmean(case.right[c] for c in method(case)) if case.right else 0.0


def _point(cases: Sequence[RunCase], k: int) -> Point:
    """Coverage with `k` candidates; runs with fewer count with all they have."""
    covered = [
        coverage(sum(case.right), len(case.right), min(k, len(case.right))) if case.right else 0.0
        for case in cases
    ]
    return Point(k=k, coverage=100 * fmean(covered), scores={})


def _chosen(cases: Sequence[RunCase]) -> dict[str, tuple[tuple[str, str], ...]]:
    def diff(case: RunCase, method: Callable[[RunCase], Sequence[int]]) -> str:
        return case.run.candidates[next(iter(method(case)))].patch.diff if case.right else ""

    return {
        name: tuple((case.run.instance, diff(case, method)) for case in cases)
        for name, method in METHODS.items()
    }
