"""Evaluates selection methods on finished runs; scaling with samples."""

import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import combinations
from math import comb
from statistics import fmean
from types import MappingProxyType

from pipeline.data.code_places import Context
from pipeline.data.options import SelectionMethod
from pipeline.data.types import VoteTable
from pipeline.lab.bundles import FinishedRun, coverage_by_dollars
from pipeline.lab.dataset import BadData, SampleLabels, list_changed_files
from pipeline.lab.predictions import Evaluation
from pipeline.lab.recall import list_compressions, recall_by_budget, score_localisation
from pipeline.lab.scoring import (
    CurvePoint,
    Report,
    assemble,
    coverage_at_k,
    percent,
    sample_coverage,
)
from pipeline.lab.strategies import score_strategies
from pipeline.selection.methods import best_candidates
from pipeline.selection.scoring.canonical import normalise
from pipeline.selection.scoring.confidence import choose, confidence, weights_for
from pipeline.selection.scoring.features import best, medoid
from pipeline.selection.scoring.standings import Standings, build_standings
from prompts.text import pluralize
from sandbox.frozen import replace

DRAWS = 10
"""Subsets of each size, per run."""


def scores_by_samples(cases: Sequence[tuple[VoteTable, Sequence[bool]]]) -> list[CurvePoint]:
    """Coverage and the score of majority voting with tests, with 1, 2, 3 … samples of each run.

    Only the drawn samples' tests vote, on the drawn samples' edits. Runs with fewer samples count
    with all of theirs.
    """
    most = max((len(right) for _, right in cases), default=0)
    draw = random.Random(0)  # noqa: S311
    points: list[CurvePoint] = []
    for k in range(1, most + 1):
        covered = [
            coverage_at_k(sum(right), len(right), min(k, len(right))) if right else 0.0
            for _, right in cases
        ]
        voted = [_voting_score(table, right, k, draw) if right else 0.0 for table, right in cases]
        scores = {"majority voting with tests": 100 * fmean(voted)}
        points.append(CurvePoint(k=k, coverage=100 * fmean(covered), scores=scores))
    return points


def _voting_score(table: VoteTable, right: Sequence[bool], k: int, draw: random.Random) -> float:
    indices = range(len(right))
    if k >= len(right):
        return _tie_score(table, right, indices)
    return fmean(_tie_score(table, right, draw.sample(indices, k)) for _ in range(DRAWS))


def _tie_score(table: VoteTable, right: Sequence[bool], among: Sequence[int]) -> float:
    """The expected score on ties."""
    own = {test.text for c in among if (test := table.candidates[c].test)}
    tests = [t for t, test in enumerate(table.tests) if test.text in own]
    votes = {c: sum(table.runs[c][t].passed for t in tests) for c in among}
    top = max(votes.values())
    return fmean(right[c] for c in among if votes[c] == top)


def coverage_by_revisions(
    runs: Sequence[tuple[FinishedRun, Mapping[int, Sequence[int] | None]]],
) -> dict[str, tuple[float, ...]]:
    """Coverage in per cent after 1, 2, 3 … edits of each machine, by the number of samples.

    A machine that approved early keeps its last edit. Empty unless the labels name the resolving
    revisions of every resolving sample.
    """
    known = [found for _, samples in runs for found in samples.values()]
    if not known or any(found is None for found in known):
        return {}
    longest = max((len(p) for run, _ in runs for p in run.revisions.values()), default=0)
    widest = max((len(run.revisions) for run, _ in runs), default=0)
    return {
        pluralize(width, "sample"): tuple(
            100
            * fmean(
                sample_coverage(_revisions_at(run, depth), samples, width) for run, samples in runs
            )
            for depth in range(1, longest + 1)
        )
        for width in sorted({w for w in (1, 2, 3, 5, 8, 13) if w < widest} | {widest})
    }


def voting_by_revisions(
    runs: Sequence[tuple[FinishedRun, Mapping[int, Sequence[int] | None]]],
) -> dict[str, tuple[float, ...]]:
    """The score of majority voting with tests after 1, 2, 3 … edits (Figure 5, right).

    The tests with which the drawn machines ended vote on every edit. Empty unless every run
    executed them on every edit.
    """
    known = coverage_by_revisions(runs)
    if not known or any(run.revision_passes is None for run, _ in runs):
        return {}
    depths = range(1, len(next(iter(known.values()))) + 1)
    draw = random.Random(0)  # noqa: S311
    return {
        name: tuple(
            100 * fmean(_voting_score_at(run, samples, int(name.split()[0]), depth, draw)
                        for run, samples in runs)
            for depth in depths
        )
        for name in known
    }  # fmt: skip


def _voting_score_at(
    run: FinishedRun,
    samples: Mapping[int, Sequence[int] | None],
    width: int,
    depth: int,
    draw: random.Random,
) -> float:
    """The expected score on ties, over all draws of `width` machines, or `DRAWS` of them."""
    serial = run.revision_passes or {}
    numbers = [c.sample for c in run.candidates if c.sample in serial]
    if not numbers:
        return 0.0
    ends = {s: min(depth, len(serial[s])) - 1 for s in numbers}
    right = {s: ends[s] in (samples.get(s) or ()) for s in numbers}
    texts = {c.sample: c.test.text for c in run.candidates if c.test}

    def tie_score(among: Sequence[int]) -> float:
        own = {texts[s] for s in among if s in texts}
        tests = [t for t, test in enumerate(run.table.tests) if test.text in own]
        votes = {s: sum(row[t] for t in tests) if (row := serial[s][ends[s]]) else -1
                 for s in among}  # fmt: skip
        top = max(votes.values())
        return fmean(right[s] for s in among if votes[s] == top)

    if width >= len(numbers):
        return tie_score(numbers)
    if comb(len(numbers), width) <= DRAWS:
        return fmean(tie_score(some) for some in combinations(numbers, width))
    return fmean(tie_score(draw.sample(numbers, width)) for _ in range(DRAWS))


def _revisions_at(run: FinishedRun, depth: int) -> dict[int, int]:
    """Each sample's last revision, from 0, after `depth` edits."""
    return {sample: min(depth, len(edits)) - 1 for sample, edits in run.revisions.items()}


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
    return medoid([normalise(c.patch.diff, base=case.run.base.get) for c in case.run.candidates])


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
) -> Evaluation:
    """Evaluate every method on every run: those above, and those all runs recorded a verdict of.

    `repositories`, by instance: whose labels no weights may be fitted on. `references`, by
    instance: the diff of its reference edit, whose files may have been shown and its places named.
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
    report = replace(
        report,
        stages=_stages(cases, methods, shown),
        recall=recall_by_budget(shown),
        localisation=score_localisation(runs, references),
        strategies=score_strategies([(case.run, case.standings, case.right) for case in cases]),
        compressions=list_compressions([context for context, _ in shown]),
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
    known = build_standings(run.table, issue=run.issue, repository=repository, base=run.base.get)
    for verdict in run.verdicts.values():
        recorded = dict(enumerate(verdict.standings[: len(run.candidates)]))
        known = known.with_results(
            broken={c: s.broken for c, s in recorded.items() if s.broken is not None},
            rewards={c: s.reward for c, s in recorded.items() if s.reward is not None},
        )
    return known


def _methods_from_verdicts(cases: Sequence[RunCase]) -> dict[str, Method]:
    """The recorded choices, for the methods of which every run with a choice has a verdict."""

    def verdict_choice(method: str, case: RunCase) -> Sequence[int]:
        at = verdict.chosen if (verdict := case.run.verdicts.get(method)) else None
        return [] if at is None or at >= len(case.right) else [at]

    # A run that ended before the choice has no verdict by any method.
    every = [set(case.run.verdicts) for case in cases if case.run.verdicts]
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
