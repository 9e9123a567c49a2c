"""Fits the likelihood ratios of executions (`pipeline.selection.scoring.standings`), offline.

    python -m tests.benchmarks.fitting.fit_ratios EXECUTIONS.jsonl... OUT.json

The executions are what `capuchin evaluate --grade DIR` writes. Labels say which edits are right.
Each rate is the mean over instances of the share of an instance's right, or wrong, edits, with
`PRIOR_INSTANCES` more at the assumed rate: edits for one issue are no independent observations.
With few instances or repositories the assumed rates stay as they are.

*Breaking tests* is seen as a run sees it: the near tests, as they were before the reference edit,
without those that most edits break which fix the issue (`standings.find_outdated`).

*Scripts* have stand-ins: the tests that the reference edit fixes, in two halves. By the labels'
definition a right edit passes them, so they say nothing of scripts that are wrong. That part stays
assumed: `SOUND` of the scripts are as good as these tests, the others pass half of all edits.
"""

import math
import sys
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from datetime import UTC, datetime
from pathlib import Path
from statistics import fmean
from typing import Final

from pipeline.lab.dataset import BadData, read_lines
from pipeline.lab.executions import SOUND
from pipeline.lab.grading import ExecutedEdit
from pipeline.lab.scoring import StatedOutcome, calibration_error, reliability_curve
from pipeline.selection.scoring.confidence import sigmoid
from pipeline.selection.scoring.standings import FittedRatios, Rate, Ratios, find_outdated
from sandbox.frozen import replace

PRIOR_INSTANCES: Final = 10
MIN_INSTANCES, MIN_REPOSITORIES = 20, 3
"""Below either, the file says what was counted, and the assumed ratios stay."""
ASSUMED: Final = Ratios(
    passes=Rate(if_right=0.75, if_wrong=0.45),
    breaks=Rate(if_right=0.05, if_wrong=0.30),
    correlation=0.6,
)
"""Before any execution: what the fit starts from."""
_EDGE: Final = 0.005
"""No rate is nearer to 0 or 1: no execution is certain."""

Share = Callable[[ExecutedEdit], float | None]
"""How far an edit does something, from 0 to 1; None: it is not known."""


def read_executions(paths: Sequence[Path]) -> list[ExecutedEdit]:
    """The rows of files that `capuchin evaluate --grade DIR` wrote, without outdated tests.

    Raises:
        BadData: they are no such files, or empty.
    """
    rows = [row for path in paths for row in read_lines(path, ExecutedEdit)]
    if not rows:
        raise BadData("There are no executions.")
    fixing: defaultdict[str, list[tuple[str, tuple[str, ...]]]] = defaultdict(list)
    for row in rows:
        if row.broken is not None and all(row.fixed):
            fixing[row.instance_id].append((row.member, row.broken))
    outdated = {name: find_outdated(edits) for name, edits in fixing.items()}
    return [
        replace(
            row, broken=tuple(sorted({*row.broken} - outdated.get(row.instance_id, frozenset())))
        )
        if row.broken
        else row
        for row in rows
    ]


def count_ratios(rows: Sequence[ExecutedEdit], prior: Ratios, weight: float) -> Ratios:
    """The ratios of halves and of near tests in `rows`, with `weight` instances of `prior`."""

    def rate(share: Share, before: Rate) -> Rate:
        return Rate(
            if_right=_smooth([r for r in rows if r.right], share, before.if_right, weight),
            if_wrong=_smooth([r for r in rows if not r.right], share, before.if_wrong, weight),
        )

    pairs = [row.halves for row in rows if not row.right and len(row.halves) > 1]
    seen = _correlation(pairs)
    many = len({row.instance_id for row in rows if not row.right and len(row.halves) > 1})
    known = 0.0 if seen is None else many
    correlation = (known * (seen or 0.0) + weight * prior.correlation) / ((known + weight) or 1)
    return Ratios(
        passes=rate(lambda row: fmean(row.halves) if row.halves else None, prior.passes),
        breaks=rate(
            lambda row: None if row.broken is None else float(bool(row.broken)), prior.breaks
        ),
        correlation=round(min(max(correlation, 0.0), 1.0), 4),
    )


def _smooth(rows: Iterable[ExecutedEdit], share: Share, prior: float, weight: float) -> float:
    groups: dict[str, list[float]] = {}
    for row in rows:
        value = share(row)
        if value is not None:
            groups.setdefault(row.instance_id, []).append(value)
    total = sum(fmean(group) for group in groups.values()) + weight * prior
    mean = total / ((len(groups) + weight) or 1)
    return round(min(max(mean, _EDGE), 1 - _EDGE), 4)


def _correlation(pairs: Sequence[tuple[bool, ...]]) -> float | None:
    """Of two halves over wrong edits; None if one does not vary."""
    if not pairs:
        return None
    first, second = ([float(pair[at]) for pair in pairs] for at in (0, 1))
    mean, other = fmean(first), fmean(second)
    spread = math.sqrt(mean * (1 - mean) * other * (1 - other))
    both = fmean(a * b for a, b in zip(first, second, strict=True))
    return (both - mean * other) / spread if spread else None


def of_halves(scripts: Ratios) -> Ratios:
    """The same, where every script is sound."""
    rate = scripts.passes
    halves = Rate(if_right=_unmix(rate.if_right), if_wrong=_unmix(rate.if_wrong))
    return replace(scripts, passes=halves)


def of_scripts(halves: Ratios) -> Ratios:
    """The same for scripts, of which only `SOUND` are."""
    rate = halves.passes
    scripts = Rate(if_right=_mix(rate.if_right), if_wrong=_mix(rate.if_wrong))
    return replace(halves, passes=scripts)


def _mix(rate: float) -> float:
    return round(SOUND * rate + (1 - SOUND) / 2, 4)


def _unmix(rate: float) -> float:
    return min(max((rate - (1 - SOUND) / 2) / SOUND, _EDGE), 1 - _EDGE)


def state(row: ExecutedEdit, ratios: Ratios, base: float, *, halves: bool) -> float:
    """The probability that an edit is right, from executions and the share `base` of right ones."""
    odds = math.log(base / (1 - base))
    if row.broken is not None:
        odds += ratios.breaks.odds(bool(row.broken))
    if halves:
        odds += ratios.script_odds(row.halves)
    return sigmoid(odds)


def check(
    rows: Sequence[ExecutedEdit], *, halves: bool, fitted: bool = True
) -> list[StatedOutcome]:
    """Stated probabilities and outcomes, each repository by ratios fitted on the others."""
    points: list[StatedOutcome] = []
    for repo in sorted({row.repo for row in rows}):
        others = [row for row in rows if row.repo != repo]
        right = sum(row.right for row in others)
        base = (right + 1) / (len(others) + 2)
        prior = of_halves(ASSUMED)
        ratios = count_ratios(others, prior, PRIOR_INSTANCES) if fitted else prior
        points += [
            (state(row, ratios, base, halves=halves), float(row.right))
            for row in rows
            if row.repo == repo
        ]
    return points


def fit(rows: Sequence[ExecutedEdit]) -> FittedRatios:
    """Fit on everything, and check on each repository without it."""
    told = [row for row in rows if row.fixed]
    curve = reliability_curve(check(told, halves=True))
    kinds = {"near tests": False, "near tests and halves": True}
    errors = {
        f"{name}, {word}": round(
            calibration_error(reliability_curve(check(told, halves=halves, fitted=fitted))), 4
        )
        for name, halves in kinds.items()
        for word, fitted in (("fitted", True), ("assumed", False))
    }
    instances = {row.instance_id for row in told}
    repositories = {row.repo for row in told}
    enough = len(instances) >= MIN_INSTANCES and len(repositories) >= MIN_REPOSITORIES
    counted = of_scripts(count_ratios(told, of_halves(ASSUMED), PRIOR_INSTANCES))
    return FittedRatios(
        date=datetime.now(UTC).date().isoformat(),
        data=f"{len(told)} public edits for {len(instances)} instances of SWE-bench Verified from "
        f"{len(repositories)} repositories, run in environments of our own",
        method=f"shares of right and wrong edits, a mean over instances, with {PRIOR_INSTANCES} "
        f"instances at the assumed rates; scripts: halves of the reference tests, and {SOUND:.0%} "
        "of scripts assumed to be as good",
        command="python -m tests.benchmarks.fitting.fit_ratios EXECUTIONS OUT",
        fitted=enough,
        ratios=counted if enough else ASSUMED,
        seen=count_ratios(told, ASSUMED, 0),
        instances=len(instances),
        edits=len(told),
        repositories=len(repositories),
        errors=errors,
        curve=tuple(curve),
    )


def main(arguments: Sequence[str]) -> int:
    """Read, fit, write, and print what stands behind it."""
    *sources, out = map(Path, arguments)
    fitted = fit(read_executions(sources))
    out.write_text(fitted.model_dump_json(indent=1) + "\n", encoding="utf-8")
    word = "Fitted" if fitted.fitted else "Too few to fit, the assumed ratios stay"
    sys.stdout.write(f"{word}: {fitted.data}.\n{fitted.ratios}\n{fitted.errors}\n")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
