"""Evaluates selection methods on the candidates of finished runs (CodeMonkeys, Figure 6)."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from statistics import fmean
from types import MappingProxyType

from pipeline.evaluation.bundles import FinishedRun
from pipeline.evaluation.dataset import BadData, SampleLabels, list_changed_files
from pipeline.evaluation.dollars import coverage_by_dollars
from pipeline.evaluation.predictions import Evaluation
from pipeline.evaluation.recall import mean_compression, recall_by_budget
from pipeline.evaluation.scaling import (
    coverage_by_revisions,
    scores_by_samples,
    voting_by_revisions,
)
from pipeline.evaluation.scoring import Report, assemble
from pipeline.evaluation.search.difficulty import find_levels, score_by_difficulty
from pipeline.evaluation.search.localisation import score_localisation
from pipeline.evaluation.search.strategies import score_strategies
from pipeline.evaluation.statistics import percent
from pipeline.options import SelectionMethod
from pipeline.selection.methods import best_candidates
from pipeline.selection.normalise.canonical import normalise
from pipeline.selection.scoring.clusters import best, medoid
from pipeline.selection.scoring.confidence import choose, confidence, weights_for
from pipeline.selection.scoring.standings import Standings, build_standings
from pipeline.types import Context, replace


@dataclass(frozen=True)
class RunCase:
    """A run's candidates, their standings by everything it recorded, and the label of each."""

    run: FinishedRun
    standings: Standings
    right: tuple[bool, ...]


Method = Callable[[RunCase], Sequence[int]]
"""The equally preferred candidates of a case that has at least one; empty: it abstains."""


def _best_by(method: SelectionMethod, case: RunCase) -> Sequence[int]:
    return best_candidates(method, case.standings)


def top_three(case: RunCase) -> Sequence[int]:
    """One of the three that pass most tests, at random; ties to the shorter diff (methods 3, 4)."""
    return case.standings.table.leaders(3)


def reporting_tests(case: RunCase) -> Sequence[int]:
    """The candidates that pass most of the tests that fail on the unedited code."""
    passes = [float(standing.passes) for standing in case.standings.entries]
    return best(range(len(passes)), passes)


def tests_then_support(case: RunCase) -> Sequence[int]:
    """`reporting_tests`, ties to the fitted ranking."""
    priors = [standing.prior for standing in case.standings.entries]
    return best(reporting_tests(case), priors)


def by_similarity(case: RunCase) -> Sequence[int]:
    """The edit most similar to all others."""
    return medoid([normalise(c.patch.diff) for c in case.run.candidates])


def by_confidence(case: RunCase) -> Sequence[int]:
    """The fitted ranking."""
    return choose(case.standings.text_evidence, weights_for(case.standings.repository))


METHODS: Mapping[str, Method] = MappingProxyType(
    {
        "majority voting with tests": partial(_best_by, "voting"),
        "top 3 by tests": top_three,
        "tests that report the issue": reporting_tests,
        "tests that report the issue, ties to confidence": tests_then_support,
        "exec": partial(_best_by, "exec"),
        "majority": partial(_best_by, "ast_voting"),
        "similarity medoid": by_similarity,
        "confidence": by_confidence,
        "evidence": partial(_best_by, "evidence"),
    }
)
"""By name, as reports print them: the methods that need no model, repeated on the runs' data."""
REWARD_METHODS: Mapping[str, Method] = MappingProxyType(
    {
        "orm_exec": partial(_best_by, "orm_exec"),
        "dev_search": partial(_best_by, "dev_search"),
    }
)
"""Left out unless some run asked a reward model."""


def evaluate_runs(
    runs: Sequence[FinishedRun],
    resolved: SampleLabels,
    *,
    repositories: Mapping[str, str] = MappingProxyType({}),
    references: Mapping[str, str] = MappingProxyType({}),
    public: Mapping[str, Sequence[str]] = MappingProxyType({}),
) -> Evaluation:
    """Evaluate every method on every run: those above, and those all runs recorded a verdict of.

    `repositories`, by instance: whose labels no weights may be fitted on. `references`, by
    instance: the diff of its reference edit, whose files may have been shown and its places named.
    `public`: the instances that each of other systems resolves; they say how hard an instance is.

    Raises:
        BadData: a run has no labels, or is labelled with a sample that it does not have.
    """
    cases: list[RunCase] = []
    for run in runs:
        if run.instance not in resolved:
            raise BadData(f"There are no labels for the run {run.instance}.")
        _check_samples_exist(run, resolved)
        right = tuple(_resolves(run, c.sample, resolved) for c in run.candidates)
        known = _restore_standings(run, repositories.get(run.instance, ""))
        cases.append(RunCase(run, known, right))
    asked = any(s.reward is not None for case in cases for s in case.standings.entries)
    methods = {**METHODS, **(REWARD_METHODS if asked else {}), **_methods_from_verdicts(cases)}
    report = _report(cases, methods, resolved)
    files = list_changed_files(references)
    shown = [
        (context, files[case.run.instance])
        for case in cases
        if (context := case.run.context) and case.run.instance in files
    ]
    played = [(case.run, case.standings, case.right) for case in cases]
    levels = find_levels(public, [run.instance for run in runs]) if public else {}
    report = replace(
        report,
        stages=_stages(cases, methods, shown),
        recall=recall_by_budget(shown),
        localisation=score_localisation(runs, references),
        strategies=score_strategies(played),
        difficulty=score_by_difficulty(played, levels),
        compression=mean_compression([context for context, _ in shown]),
    )
    return Evaluation(report, _choices(cases, methods))


def _check_samples_exist(run: FinishedRun, resolved: SampleLabels) -> None:
    known = {*run.revisions, *(candidate.sample for candidate in run.candidates)}
    strange = sorted(set(resolved[run.instance]) - known)
    if strange:
        raise BadData(
            f"The run {run.instance} has no sample {strange[0]}, which its labels name. Samples "
            "are counted from 0: edit 1 of a report is sample 0."
        )
    for sample, named in resolved[run.instance].items():
        most = max(named or (), default=0)
        if sample in run.revisions and most >= max(1, len(run.revisions[sample])):
            raise BadData(
                f"The run {run.instance} has no revision {most} of sample {sample}, which its "
                "labels name. Revisions are counted from 0."
            )


def _resolves(run: FinishedRun, sample: int, resolved: SampleLabels) -> bool:
    samples = resolved[run.instance]
    if sample not in samples:
        return False
    revisions = samples[sample]
    return revisions is None or len(run.revisions[sample]) - 1 in revisions


def _restore_standings(run: FinishedRun, repository: str) -> Standings:
    known = build_standings(run.table, issue=run.issue, repository=repository)
    for verdict in run.verdicts.values():
        recorded = dict(enumerate(verdict.standings[: len(run.candidates)]))
        known = known.with_results(
            broken={c: s.broken for c, s in recorded.items() if s.broken is not None},
            rewards={c: s.reward for c, s in recorded.items() if s.reward is not None},
        )
    return known


def _methods_from_verdicts(cases: Sequence[RunCase]) -> dict[str, Method]:
    """The recorded choices, for the methods of which every run has a verdict."""

    def verdict_choice(method: str, case: RunCase) -> Sequence[int]:
        at = case.run.verdicts[method].chosen
        return [] if at is None or at >= len(case.right) else [at]

    every = [set(case.run.verdicts) for case in cases]
    common = sorted(set[str].intersection(*every)) if every else []
    return {f"{method}, as it was chosen": partial(verdict_choice, method) for method in common}


def _report(
    cases: Sequence[RunCase], methods: Mapping[str, Method], resolved: SampleLabels
) -> Report:
    weights = {case.run.instance: weights_for(case.standings.repository) for case in cases}
    stated = {
        "confidence": [
            (
                confidence(case.standings.text_evidence, weights[case.run.instance]),
                _chance_of_right(case, by_confidence),
            )
            for case in cases
            if case.right
        ],
        "evidence": [
            (case.standings.confidence(at), float(case.right[at]))
            for case in cases
            for at in best_candidates("evidence", case.standings)[:1]
        ],
    }
    samples = sorted({c.sample for case in cases for c in case.run.candidates})
    members = {f"sample {s}": [_sample_score(case, s) for case in cases] for s in samples}
    report = assemble(
        members=members or {"none": [0.0 for _ in cases]},
        methods={
            name: [_chance_of_right(case, m) for case in cases] for name, m in methods.items()
        },
        stated=stated,
        points=scores_by_samples([(case.run.table, case.right) for case in cases]),
    )
    revised = [(case.run, resolved[case.run.instance]) for case in cases]
    serial = {
        "serial": coverage_by_revisions(revised),
        "serial_voted": voting_by_revisions(revised),
        "dollars": coverage_by_dollars(
            [(run.costs, found) if run.costs else None for run, found in revised]
        ),
    }
    return replace(report, **serial)


def _sample_score(case: RunCase, sample: int) -> float:
    verdicts = zip(case.run.candidates, case.right, strict=True)
    return float(any(right for c, right in verdicts if c.sample == sample))


def _chance_of_right(case: RunCase, method: Method) -> float:
    picks = _picks(case, method)
    return fmean(case.right[c] for c in picks) if picks else 0.0


def _picks(case: RunCase, method: Method) -> Sequence[int]:
    return method(case) if case.right else ()


def _stages(
    cases: Sequence[RunCase],
    methods: Mapping[str, Method],
    shown: Sequence[tuple[Context, frozenset[str]]],
) -> dict[str, float]:
    """CodeMonkeys, Figure 2: how far each of the three steps gets, in per cent of instances."""
    whole = [float(needed <= {file.path for file in seen.files}) for seen, needed in shown]
    context = {"context: every file of the reference edit was shown": percent(whole)}
    scores = {name: percent([_chance_of_right(c, m) for c in cases]) for name, m in methods.items()}
    first = max(scores, key=lambda name: scores[name])
    return {
        **(context if shown else {}),
        "generation: some candidate is right": percent([float(any(c.right)) for c in cases]),
        f"selection: the chosen one is right ({first})": scores[first],
    }


def _choices(
    cases: Sequence[RunCase], methods: Mapping[str, Method]
) -> dict[str, tuple[tuple[str, str], ...]]:
    def diff(case: RunCase, method: Method) -> str:
        picks = _picks(case, method)
        return case.run.candidates[picks[0]].patch.diff if picks else ""

    return {
        name: tuple((case.run.instance, diff(case, method)) for case in cases)
        for name, method in methods.items()
    }
