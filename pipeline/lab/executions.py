"""Ways of choosing on random ensembles of edits that ran, with and without what the runs showed."""

import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean
from types import MappingProxyType
from typing import Final

from pipeline.lab.dataset import BadData, Dataset
from pipeline.lab.grading import ExecutedEdit
from pipeline.lab.predictions import CaseBuilder, EnsembleCase, by_confidence, majority, medoid
from pipeline.lab.render import table
from pipeline.lab.scoring import (
    Calibration,
    MethodScore,
    StatedOutcome,
    calibrate,
    percent,
    score_method,
)
from pipeline.selection.scoring.confidence import log_odds, ranking, sigmoid, weights_for
from pipeline.selection.scoring.features import best
from pipeline.selection.scoring.standings import find_outdated, load_shipped_ratios, suite_odds
from sandbox.frozen import Frozen

ENSEMBLES: Final = 200
"""Random ensembles for each instance."""
SIZE: Final = 5
SOUND: Final = 0.5
"""The share of scripts that are as good as the benchmark's own tests; the others are assumed to
pass half of all edits, whatever they do."""


@dataclass(frozen=True)
class ExecutedCase:
    """One instance with one ensemble, and how each member's edit ran."""

    case: EnsembleCase
    rows: tuple[ExecutedEdit, ...]
    seed: str
    """Which of the scripts are sound, and what the others say."""

    def weigh(
        self, *, scripts: bool, near: bool = True, outdated: bool = True
    ) -> tuple[list[float], list[bool]]:
        """By candidate: what `near` tests and stand-ins for `scripts` add, in log-odds; and whether
        it may be proposed, as `pipeline.selection.judge` asks. Without `outdated`, no old test is
        excused."""
        ratios, draw = load_shipped_ratios().ratios, random.Random(self.seed)  # noqa: S311
        passes: list[dict[int, bool]] = []
        for at in range(2 if scripts else 0):
            sound = draw.random() < SOUND
            noise = {id(row): draw.random() < 0.5 for row in dict.fromkeys(self.rows)}
            known = {c: row.halves for c, row in enumerate(self.rows) if len(row.halves) > at}
            passes.append(
                {c: each[at] if sound else noise[id(self.rows[c])] for c, each in known.items()}
            )
        odds: list[float] = []
        fit = [not scripts or any(one.get(c) for one in passes) for c in range(len(self.rows))]
        excused = find_outdated(
            (row.member, row.broken)
            for row, reproduces in zip(self.rows, fit, strict=True)
            if reproduces and row.broken is not None and outdated
        )
        for c, row in enumerate(self.rows):
            broken = row.broken if near else None
            fit[c] = fit[c] and excused.issuperset(broken or ())
            told = ratios.script_odds([script[c] for script in passes if c in script])
            odds.append(suite_odds(broken, excused) + told)
        return odds, fit


Choice = Callable[[ExecutedCase], tuple[Sequence[int], float | None]]
"""The equally preferred candidates, and the stated probability of the first, if it states one."""


def _by_text(method: Callable[[EnsembleCase], Sequence[int]]) -> Choice:
    return lambda one: (method(one.case), None)


def _by_evidence(
    *, scripts: bool, near: bool = True, outdated: bool = True, text: bool = True
) -> Choice:
    def choose(one: ExecutedCase) -> tuple[Sequence[int], float]:
        evidence, weights = one.case.evidence, weights_for(one.case.instance.repo)
        odds, fit = one.weigh(scripts=scripts, near=near, outdated=outdated)
        prior = ranking(evidence, weights) if text else [0.0] * len(odds)
        scores = [a + b for a, b in zip(prior, odds, strict=True)]
        chosen = best([c for c, may in enumerate(fit) if may] or range(len(scores)), scores)
        return chosen, sigmoid(log_odds(evidence, weights, chosen[0]) + odds[chosen[0]])

    return choose


CHOICES: Mapping[str, Choice] = MappingProxyType(
    {
        "majority": _by_text(majority),
        "similarity medoid": _by_text(medoid),
        "confidence": _by_text(by_confidence),
        "confidence and near tests": _by_evidence(scripts=False),
        "evidence: with two scripts": _by_evidence(scripts=True),
        "… without near tests": _by_evidence(scripts=True, near=False),
        "… no old test is excused": _by_evidence(scripts=True, outdated=False),
        "… without the text": _by_evidence(scripts=True, text=False),
    }
)


class ExecutionReport(Frozen):
    """Scores in per cent, means over instances of means over their ensembles."""

    instances: int
    edits: int
    random: float
    oracle: float
    methods: Mapping[str, MethodScore]
    calibration: Mapping[str, Calibration]


def evaluate_executions(
    data: Dataset,
    rows: Sequence[ExecutedEdit],
    code: Mapping[str, Mapping[str, str]] = MappingProxyType({}),
) -> ExecutionReport:
    """Compare the ways of choosing on ensembles of members whose edits are among `rows`, or equal
    to one after normalisation. `code`: as for `CaseBuilder`.

    Raises:
        BadData: no instance has two such members.
    """
    builder = CaseBuilder(data, code)
    lowest: list[float] = []
    highest: list[float] = []
    scores: dict[str, list[float]] = {name: [] for name in CHOICES}
    stated: dict[str, list[StatedOutcome]] = {}
    for instance in data.instances:
        ran = [row for row in rows if row.instance_id == instance.instance_id]
        whole = builder.build(instance, data.members)
        keys = dict(zip(whole.members, (form.key for form in whole.forms), strict=True))
        by_key = {keys[row.member]: row for row in ran if row.member in keys}
        known = [member for member in whole.members if keys[member] in by_key]
        if len(known) < 2:
            continue
        found: dict[str, list[float]] = {name: [] for name in ("", "oracle", *CHOICES)}
        for number in range(ENSEMBLES):
            seed = f"{instance.instance_id} {number}"
            drawn = random.Random(seed).sample(known, min(SIZE, len(known)))  # noqa: S311
            case = builder.build(instance, drawn)
            one = ExecutedCase(case, tuple(by_key[keys[m]] for m in case.members), seed)
            found[""].append(fmean(case.right))
            found["oracle"].append(float(any(case.right)))
            for name, choose in CHOICES.items():
                chosen, sure = choose(one)
                found[name].append(fmean(case.right[c] for c in chosen))
                if sure is not None:
                    stated.setdefault(name, []).append((sure, float(case.right[chosen[0]])))
        lowest.append(fmean(found[""]))
        highest.append(fmean(found["oracle"]))
        for name in CHOICES:
            scores[name].append(fmean(found[name]))
    if not lowest:
        raise BadData("The executions are of none of these instances and members.")
    return ExecutionReport(
        instances=len(lowest),
        edits=len(rows),
        random=percent(lowest),
        oracle=percent(highest),
        methods={name: score_method(values, lowest, highest) for name, values in scores.items()},
        calibration={name: calibrate(points) for name, points in stated.items()},
    )


def render_executions(report: ExecutionReport) -> str:
    """The report in Markdown."""
    lines = [
        f"{report.instances} instances, {report.edits} edits that ran, {ENSEMBLES} random "
        f"ensembles of {SIZE} members for each instance. As many right as wrong edits ran where "
        "there were both: chance is not right as often as the members are. Scripts are the "
        f"benchmark's own tests in two halves, of which {SOUND:.0%} count and the others say "
        "nothing.\n",
        *table(
            ("choice", "right, %", "95 %", "gap closed, %", "stated, %", "ECE"),
            [
                ("random", f"{report.random:.1f}", "", "0", "", ""),
                *(
                    (name, f"{one.score:.1f}", "{:.1f} to {:.1f}".format(*one.ci),
                     "" if one.gap_closed is None else f"{one.gap_closed:.0f}",
                     *_describe_stated(report.calibration.get(name)))
                    for name, one in report.methods.items()
                ),
                ("oracle", f"{report.oracle:.1f}", "", "100", "", ""),
            ],
        ),
    ]  # fmt: skip
    return "\n".join(lines)


def _describe_stated(found: Calibration | None) -> tuple[str, str]:
    return (f"{100 * found.stated:.1f}", f"{found.error:.3f}") if found else ("", "")
