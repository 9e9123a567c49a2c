"""What a trained reward model gains on issues kept apart, over our own calibrated confidence."""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean
from types import MappingProxyType
from typing import Literal

from pipeline.lab.learning.filtering import CandidateRow, HeldOut
from pipeline.lab.learning.records import AnswerLevel
from pipeline.lab.learning.training_rows import outcome_prompt, process_rows
from pipeline.lab.render import table
from pipeline.lab.scoring import bootstrap, percent
from pipeline.selection.scoring.canonical import normalise
from pipeline.selection.scoring.confidence import ranking, weights_for
from pipeline.selection.scoring.features import best, compute_text_evidence
from pipeline.store import digest
from sandbox.frozen import Frozen

Level = AnswerLevel
_WEIGHTS = (0.0, 0.1, 0.25, 0.5, 1.0, 2.0, 4.0)


class Gain(Frozen):
    """One question, in per cent of issues with a right choice; intervals are of 95 %."""

    level: Level
    issues: int
    random: float
    confidence: float
    """By the shipped confidence, never fitted on the issue's own repository."""
    model: float
    """The share that the trained model alone chooses right."""
    fused: float
    """By both; the weight is chosen on other repositories."""
    weight: float
    """What the model's log-odds count in the sum of both where all issues choose it."""
    model_gain: tuple[float, float, float]
    """Model minus confidence, with the paired interval."""
    fused_gain: tuple[float, float, float]
    """Both minus confidence, with the paired interval."""
    pairs: float | None
    """Of pairs of a right and a wrong candidate of one issue, how many the model orders right."""

    @property
    def is_measured(self) -> bool:
        """Whether the interval of the fused gain lies above 0."""
        return self.fused_gain[1] > 0


@dataclass(frozen=True)
class JudgedIssue:
    """The labelled candidates of one issue with their scores."""

    repository: str
    labels: tuple[bool, ...]
    confidence: tuple[float, ...]
    model: tuple[float, ...]


def list_score_requests(
    data: HeldOut, kind: Literal["prm", "orm"], levels: Sequence[Level]
) -> list[dict[str, object]]:
    """What the trainer's interpreter is to score: the requests of the served reward models, of a
    PRM those at `levels`."""
    known = {one.id: one for one in data.issues}
    found: list[dict[str, object]] = []
    for row in data.candidates:
        if kind == "orm" and row.right is None:
            continue
        if kind == "orm":
            prompt = [one.model_dump() for one in outcome_prompt(known[row.issue].issue)]
            found.append(
                {"key": score_key("edits", row), "kind": kind, "prompt": prompt, "answer": row.diff}
            )
            continue
        steps = process_rows(
            known[row.issue], "test", row.source, row.diff,
            files=row.files, places=row.places, right=row.verdict, summary=row.summary,
        )  # fmt: skip
        for step in (one for one in steps if one.level in levels):
            prompt = [one.model_dump() for one in step.prompt]
            found.append({"key": score_key(step.level, row), "kind": kind, "prompt": prompt})
    return found


def score_key(level: Level, row: CandidateRow) -> str:
    """The name of a score in the file of scores."""
    return digest(level, row.issue, row.diff)


def judge(
    data: HeldOut,
    scores: Mapping[str, float],
    levels: Sequence[Level],
    code: Mapping[str, Mapping[str, str]] = MappingProxyType({}),
) -> list[Gain]:
    """The gain at each level, on the issues of the test that have labelled candidates.

    `code`: by issue, the unedited files that its edits change, which a run reads too.
    """
    return [_measure(level, _list_judged_issues(data, scores, level, code)) for level in levels]


def _list_judged_issues(
    data: HeldOut,
    scores: Mapping[str, float],
    level: Level,
    code: Mapping[str, Mapping[str, str]],
) -> list[JudgedIssue]:
    known = {one.id: one for one in data.issues}
    rows: dict[str, list[CandidateRow]] = defaultdict(list)
    for row in data.candidates:
        if _label(row, level) is not None and score_key(level, row) in scores:
            rows[row.issue].append(row)
    found: list[JudgedIssue] = []
    for name, some in rows.items():
        issue = known[name]
        base = code.get(name, {}).get
        evidence = compute_text_evidence(
            [normalise(row.diff, base=base) for row in some], f"{issue.title}\n{issue.body}"
        )
        found.append(
            JudgedIssue(
                repository=issue.repository,
                labels=tuple(bool(_label(row, level)) for row in some),
                confidence=tuple(ranking(evidence, weights_for(issue.repository))),
                model=tuple(scores[score_key(level, row)] for row in some),
            )
        )
    return found


def _label(row: CandidateRow, level: Level) -> bool | None:
    return {"edits": row.right, "files": row.files, "places": row.places}[level]


def _measure(level: Level, cases: Sequence[JudgedIssue]) -> Gain:
    confidence = [_chance(case, case.confidence) for case in cases]
    model = [_chance(case, case.model) for case in cases]
    fused = _fuse(cases)
    return Gain(
        level=level,
        issues=len(cases),
        random=percent([fmean(case.labels) for case in cases]),
        confidence=percent(confidence),
        model=percent(model),
        fused=percent(fused),
        weight=_best_weight(cases),
        model_gain=_compute_paired_gain(model, confidence),
        fused_gain=_compute_paired_gain(fused, confidence),
        pairs=_order_pairs(cases),
    )


def _chance(case: JudgedIssue, scores: Sequence[float]) -> float:
    """The chance that the choice by `scores` is right, ties broken at random."""
    return fmean(case.labels[c] for c in best(range(len(scores)), scores))


def _fuse(cases: Sequence[JudgedIssue]) -> list[float]:
    """The chances by both scores, with the weight that is best on the other folds.

    A fold is a repository; of a single repository, one half of its issues.
    """
    single = len({case.repository for case in cases}) < 2
    folds = [str(n % 2) if single else case.repository for n, case in enumerate(cases)]
    chosen = {
        fold: _best_weight([case for case, name in zip(cases, folds, strict=True) if name != fold])
        for fold in set(folds)
    }
    return [_chance_of_both(case, chosen[fold]) for case, fold in zip(cases, folds, strict=True)]


def _best_weight(cases: Sequence[JudgedIssue]) -> float:
    """Of equal weights, the smallest."""
    return max(_WEIGHTS, key=lambda weight: sum(_chance_of_both(c, weight) for c in cases))


def _chance_of_both(case: JudgedIssue, weight: float) -> float:
    both = zip(case.confidence, case.model, strict=True)
    return _chance(case, [ours + weight * theirs for ours, theirs in both])


def _compute_paired_gain(
    one: Sequence[float], other: Sequence[float]
) -> tuple[float, float, float]:
    differences = [a - b for a, b in zip(one, other, strict=True)]

    def mean(drawn: Sequence[int]) -> float:
        return 100 * sum(differences[i] for i in drawn) / len(drawn)

    low, high = bootstrap(len(differences), mean)
    return percent(differences), low, high


def _order_pairs(cases: Sequence[JudgedIssue]) -> float | None:
    results = [
        1.0 if case.model[r] > case.model[w] else 0.5 if case.model[r] == case.model[w] else 0.0
        for case in cases
        for r, right in enumerate(case.labels)
        for w, wrong in enumerate(case.labels)
        if right and not wrong
    ]
    return percent(results) if results else None


def render_gains(gains: Sequence[Gain], name: str) -> str:
    """The report as Markdown."""

    def show(gain: tuple[float, float, float]) -> str:
        return f"{gain[0]:+.1f} ({gain[1]:+.1f} to {gain[2]:+.1f})"

    lines = [
        f"# What {name} gains\n",
        "Per cent of the held-out issues with a right choice; differences with their paired 95 % "
        "intervals.\n",
        *table(
            (
                "choice of", "issues", "random", "confidence", "model", "both",
                "weight", "model − confidence", "both − confidence", "pairs in order",
            ),
            [
                (
                    g.level,
                    g.issues,
                    *(f"{score:.1f}" for score in (g.random, g.confidence, g.model, g.fused)),
                    f"{g.weight:g}",
                    show(g.model_gain),
                    show(g.fused_gain),
                    "" if g.pairs is None else f"{g.pairs:.1f}",
                )
                for g in gains
            ],
        ),
        *(
            f"- {g.level}: "
            + ("a gain over the confidence is measured." if g.is_measured else "no gain measured.")
            for g in gains
        ),
        "",
    ]  # fmt: skip
    return "\n".join(lines)
