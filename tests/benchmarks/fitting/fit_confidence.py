"""Fits the weights of `pipeline.selection.scoring.confidence`, offline.

    python -m tests.benchmarks.fitting.fit_confidence INSTANCES PREDICTIONS LABELS OUT.json

Two steps, each a convex regression with a ridge penalty and a sign for each weight:

1. *Rank*: a conditional logit (McFadden 1974) scores the candidates of one ensemble, so that the
   right candidates score above the wrong ones of the same issue.
2. *Probability*: a logistic regression gives the chance that the candidate ranked first is right.

The candidates come from random ensembles of the systems in the data ("members"). The second step
sees ranks that were fitted without the repository in question.

Needs NumPy and SciPy, which are development dependencies: the product reads the weights from
`confidence.json` and imports neither.
"""

import random
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from pipeline.lab.dataset import Dataset, read_dataset
from pipeline.lab.predictions import CaseBuilder
from pipeline.lab.scoring import reliability_curve
from pipeline.selection.scoring.confidence import (
    ConfidenceModel,
    Fit,
    Weights,
    choose,
    confidence,
    probability_features,
)
from pipeline.selection.scoring.features import TextEvidence

try:
    import numpy as np
    from numpy.typing import NDArray
    from scipy.optimize import Bounds, minimize, root
except ModuleNotFoundError as missing:
    sys.exit(f"Fitting needs {missing.name}, a development dependency. Install it: `uv sync`.")

_NEGATIVE = frozenset({"added", "removed", "tests", "file_named", "distinct"})
_POSITIVE = frozenset({"support"})
_UNSIGNED = frozenset({"irrelevant_files", "bias", "candidates"})


Vector = NDArray[np.floating[Any]]
Loss = Callable[[Vector], tuple[float, Vector]]
"""A function that returns the value and the gradient at a point of n weights."""
_GRADIENT_TOLERANCE = 1e-7

SIZES = (2, 3, 5, 5, 10, 10, 20, 20)
"""How many members each random ensemble has; drawn twice for ranks, once for probabilities."""
STRONG_SHARE = 0.7
"""The best share of members, by labels, from which half the ensembles for ranks are drawn."""
UPPER_SHARE = 0.5
"""The best share of members, by labels, from which ensembles of similar strength are drawn. Unknown
sources are assumed to be as good as today's: the better half."""
NEIGHBOUR_RATIO = 1.3
"""How many neighbours in strength each member of such an ensemble is drawn from."""
RANK_PENALTY = 0.03
"""The ridge penalty on squared standardised weights, per mean log-likelihood of a choice."""
PROBABILITY_PENALTY = 0.003
COMMAND = "python -m tests.benchmarks.fitting.fit_confidence INSTANCES PREDICTIONS LABELS OUT"
FOLDS = 4
"""Folds: probabilities are fitted to ranks that were fitted without the fold."""
CHOSEN_FEATURES = ("support", "similarity_mean", "similarity_nearest", "added", "removed")


@dataclass(frozen=True)
class EnsembleSample:
    """One instance with the members of a random ensemble."""

    repo: str
    equal_strength: bool
    """Whether the members are of similar strength, as samples of one system are."""
    evidence: TextEvidence
    right: tuple[bool, ...]


def samples(data: Dataset) -> list[EnsembleSample]:
    """Draw random ensembles for every instance."""
    draw = random.Random(2026)
    builder = CaseBuilder(data)
    ordered = sorted(data.members, key=lambda m: -len(data.resolved[m]))
    found: list[EnsembleSample] = []
    for instance in data.instances:
        for number, size in enumerate(SIZES * 3):
            like = number >= 2 * len(SIZES)
            pool = (
                _pick_neighbours(ordered, size, UPPER_SHARE, draw)
                if like
                else ordered[: _share_count(ordered, STRONG_SHARE)]
                if number % 2
                else ordered
            )
            members = draw.sample(pool, min(size, len(pool)))
            case = builder.build(instance, members)
            if case.members:
                found.append(EnsembleSample(instance.repo, like, case.evidence, case.right))
    return found


def _pick_neighbours(
    ordered: Sequence[str], size: int, upper: float, draw: random.Random
) -> Sequence[str]:
    """Draw members of similar strength, a few more than `size`; `ordered` is strongest first."""
    among = ordered[: _share_count(ordered, upper)]
    width = min(round(size * NEIGHBOUR_RATIO) + 1, len(among))
    first = draw.randrange(len(among) - width + 1)
    return among[first : first + width]


def _share_count(ordered: Sequence[str], share: float) -> int:
    return max(int(len(ordered) * share), 1)


def fit_rank(
    found: Sequence[EnsembleSample], penalty: float, names: Sequence[str]
) -> dict[str, float]:
    """Fit a conditional logit: the right candidates of a sample against its wrong ones."""
    mixed = [s for s in found if not s.equal_strength and 0 < sum(s.right) < len(s.right)]
    rows: Vector = np.array([[row[n] for n in names] for s in mixed for row in s.evidence.rows])
    scale = rows.std(axis=0) + 1e-9
    rows = rows / scale
    sizes = np.array([len(s.right) for s in mixed])
    starts = np.concatenate([[0], np.cumsum(sizes)[:-1]])
    which = np.repeat(np.arange(len(mixed)), sizes)
    target: Vector = np.concatenate([np.array(s.right, float) / sum(s.right) for s in mixed])

    def loss(weights: Vector) -> tuple[float, Vector]:
        score: Vector = rows @ weights
        top = np.maximum.reduceat(score, starts)[which]
        power = np.exp(score - top)
        total = np.add.reduceat(power, starts)[which]
        value = -float(target @ (score - top - np.log(total))) / len(mixed)
        slope: Vector = rows.T @ (power / total - target) / len(mixed)
        return value + penalty * float(weights @ weights), slope + 2 * penalty * weights

    return _by_name(names, minimise(loss, [weight_sign(n) for n in names]) / scale)


def fit_probability(
    rows: Sequence[dict[str, float]], right: Sequence[float], names: Sequence[str]
) -> dict[str, float]:
    """Fit a logistic regression of whether the chosen edit is right."""
    table = np.array([[row[n] for n in names] for row in rows])
    target = np.array(right)
    scale = np.where(table.std(axis=0) > 1e-9, table.std(axis=0), 1.0)
    table = table / scale
    penalty = np.full(len(names), PROBABILITY_PENALTY)
    penalty[list(names).index("bias")] = 0

    def loss(weights: Vector) -> tuple[float, Vector]:
        score: Vector = table @ weights
        value = float(np.logaddexp(0, score).sum() - target @ score) / len(target)
        chance = 1 / (1 + np.exp(-score))
        slope: Vector = table.T @ (chance - target) / len(target) + 2 * penalty * weights
        return value + float(penalty @ weights**2), slope

    return _by_name(names, minimise(loss, [weight_sign(n) for n in names]) / scale)


def weight_sign(name: str) -> int:
    """The sign a weight must have: -1 not positive, 1 not negative, 0 any.

    A `chosen_` prefix makes no difference. Raises KeyError for an unknown name.
    """
    name = name.removeprefix("chosen_")
    if name in _NEGATIVE:
        return -1
    if name in _POSITIVE or name.startswith("similarity"):
        return 1
    if name in _UNSIGNED:
        return 0
    raise KeyError(name)


def minimise(loss: Loss, signs: Sequence[int]) -> Vector:
    """The n weights with the least `loss`, a convex function; `signs` as of `weight_sign`.

    Raises:
        ArithmeticError: the search did not converge.
    """
    bounds = Bounds(
        [0.0 if sign > 0 else -np.inf for sign in signs],
        [0.0 if sign < 0 else np.inf for sign in signs],
    )
    found = minimize(
        loss,
        np.zeros(len(signs)),
        jac=True,
        method="L-BFGS-B",
        bounds=bounds,
        # Stop only where the gradient vanishes, or where the loss no longer changes.
        options={"ftol": 0.0, "gtol": 1e-10, "maxiter": 20_000, "maxfun": 40_000, "maxcor": 60},
    )
    weights: Vector = found.x
    free = (weights > bounds.lb) & (weights < bounds.ub)

    def slope_at(inner: Vector) -> Vector:
        weights[free] = inner
        return loss(weights)[1][free]

    # Near its least the loss differs by less than its rounding, which depends on the processor,
    # while the gradient still tells six digits of the weights.
    if free.any():
        weights[free] = root(slope_at, weights[free], tol=1e-12).x
    weights = np.clip(weights, bounds.lb, bounds.ub)
    # At a bound the gradient may be large; a step against it must lead out of the bounds.
    left = weights - np.clip(weights - loss(weights)[1], bounds.lb, bounds.ub)
    if np.abs(left).max(initial=0.0) > _GRADIENT_TOLERANCE:
        raise ArithmeticError(f"the fit did not converge: {found.message}")
    return weights


def _by_name(names: Sequence[str], weights: Vector) -> dict[str, float]:
    return {name: round(float(value), 6) for name, value in zip(names, weights, strict=True)}


def fit_weights(found: Sequence[EnsembleSample]) -> Weights:
    """Fit both steps; probabilities see ranks that were fitted on other repositories."""
    names = list(found[0].evidence.rows[0])
    rows: list[dict[str, float]] = []
    right: list[float] = []
    for inside, outside in _repository_folds(found):
        rank = Weights(rank=fit_rank(inside, RANK_PENALTY, names), probability={})
        for sample in (s for s in outside if s.equal_strength):
            tops = choose(sample.evidence, rank)
            rows.append(probability_features(sample.evidence, tops[0]))
            right.append(sum(sample.right[c] for c in tops) / len(tops))
    chosen = [f"chosen_{name}" for name in CHOSEN_FEATURES]
    return Weights(
        rank=fit_rank(found, RANK_PENALTY, names),
        probability=fit_probability(rows, right, ["bias", *found[0].evidence.agreement, *chosen]),
    )


def _repository_folds(
    found: Sequence[EnsembleSample],
) -> Iterator[tuple[list[EnsembleSample], list[EnsembleSample]]]:
    """Repositories dealt into folds, largest first, each to the emptiest fold."""
    sizes: dict[str, int] = {}
    for sample in found:
        sizes[sample.repo] = sizes.get(sample.repo, 0) + 1
    folds: list[set[str]] = [set() for _ in range(min(FOLDS, len(sizes)))]
    for repo in sorted(sizes, key=lambda r: (-sizes[r], r)):
        min(folds, key=lambda f: sum(sizes[r] for r in f)).add(repo)
    for fold in folds:
        yield [s for s in found if s.repo not in fold], [s for s in found if s.repo in fold]


def fit(data: Dataset, data_note: str, command: str) -> ConfidenceModel:
    """Fit all weights: on everything, and without each repository."""
    points: list[tuple[float, float]] = []
    found = samples(data)
    without: dict[str, Weights] = {}
    for repo in sorted({s.repo for s in found}):
        weights = fit_weights([s for s in found if s.repo != repo])
        without[repo] = weights
        for sample in found:
            if sample.repo == repo and sample.equal_strength:
                tops = choose(sample.evidence, weights)
                share = sum(sample.right[c] for c in tops) / len(tops)
                points.append((confidence(sample.evidence, weights), share))
    return ConfidenceModel(
        date=datetime.now(UTC).date().isoformat(),
        data=data_note,
        method="conditional logit over random ensembles of the members, then logistic regression "
        "of whether the first is right; ridge penalties; repositories kept whole in folds",
        command=command,
        fit=Fit(whole=fit_weights(found), without=without),
        curve=tuple(reliability_curve(points)),
    )


def main() -> int:
    instances, predictions, labels, out = map(Path, sys.argv[1:5])
    data = read_dataset(instances, predictions, labels)
    data_note = (
        f"{len(data.instances)} instances of SWE-bench Verified with the public leaderboard's "
        f"edits and verdicts of {len(data.members)} systems"
    )
    fitted = fit(data, data_note, COMMAND)
    out.write_text(fitted.model_dump_json(indent=1) + "\n", encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
