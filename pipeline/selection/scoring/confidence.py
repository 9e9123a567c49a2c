"""How probable it is that the best of several edits is right, without running any.

Two steps, both fitted on labelled edits of public systems (see the note in `confidence.json`):
a ranking of the candidates among each other, and a calibrated probability for the first of them.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from functools import cache
from importlib.resources import files
from typing import Literal

from pipeline.selection.scoring.clusters import best
from pipeline.selection.scoring.features import FeatureRow, TextEvidence
from pipeline.types import Frozen

Kind = Literal["anonymous", "record"]
"""Whether the sources of edits are told apart by their record on other repositories."""

_MAX_LOG_ODDS = 6.0


class Weights(Frozen):
    """What each number of the evidence adds."""

    rank: Mapping[str, float]
    probability: Mapping[str, float]
    """In log-odds; `bias` is added always."""


class Fit(Frozen):
    whole: Weights
    without: Mapping[str, Weights]
    """Of each repository that the data holds: weights fitted on all others."""


class CalibrationBin(Frozen):
    """Choices of about the same confidence."""

    confidence: float
    right: float
    choices: int


class ConfidenceModel(Frozen):
    """The file of weights."""

    date: str
    data: str
    method: str
    command: str
    fits: Mapping[Kind, Fit]
    curves: Mapping[Kind, tuple[CalibrationBin, ...]]
    """Of choices in repositories that the weights had not seen."""


@cache
def load_shipped_model() -> ConfidenceModel:
    """The weights that come with the package."""
    text = (files("pipeline.selection.scoring") / "confidence.json").read_text(encoding="utf-8")
    return ConfidenceModel.model_validate_json(text)


def weights_for(repository: str | None, kind: Kind = "anonymous") -> Weights:
    """The weights for an issue of this repository: never any that were fitted on its labels."""
    fit = load_shipped_model().fits[kind]
    return fit.without.get(repository or "", fit.whole)


def ranking(evidence: TextEvidence, weights: Weights) -> list[float]:
    """A score for each candidate; only differences within one evidence mean anything."""
    return [_dot(weights.rank, row) for row in evidence.rows]


def choose(evidence: TextEvidence, weights: Weights) -> list[int]:
    """The best candidates: more than one only when nothing tells them apart."""
    return best(range(len(evidence.rows)), ranking(evidence, weights))


def confidence(evidence: TextEvidence, weights: Weights) -> float:
    """The probability, 0 to 1, that what `choose` gives is right; 0 when there is nothing."""
    return sigmoid(log_odds(evidence, weights)) if evidence.rows else 0.0


def log_odds(evidence: TextEvidence, weights: Weights, chosen: int | None = None) -> float:
    """Of a candidate's being right, by its text and the others' alone; None: what `choose` gives.

    There must be a candidate.
    """
    return _dot(
        weights.probability, probability_features(evidence, ranking(evidence, weights), chosen)
    )


def probability_features(
    evidence: TextEvidence, scores: Sequence[float], chosen: int | None = None
) -> FeatureRow:
    """What the probability is reckoned from: how far the candidates agree, on `chosen` too.

    None: the first of those with the highest score.
    """
    chosen = best(range(len(scores)), scores)[0] if chosen is None else chosen
    tops = [max(scores[member] for member in group.members) for group in evidence.groups]
    own = max(
        scores[m] for group in evidence.groups if chosen in group.members for m in group.members
    )
    highest = max(tops)
    total = sum(math.exp(top - highest) for top in tops)
    share = math.exp(own - highest) / total
    margin = (
        math.log(share / (1 - share))
        if 0 < share < 1
        else math.copysign(_MAX_LOG_ODDS, share - 0.5)
    )
    row = {f"chosen_{name}": value for name, value in evidence.rows[chosen].items()}
    return {
        "bias": 1.0,
        "margin": max(-_MAX_LOG_ODDS, min(margin, _MAX_LOG_ODDS)),
        **evidence.agreement,
        **row,
    }


def sigmoid(x: float) -> float:
    return 1 / (1 + math.exp(-x)) if x >= 0 else math.exp(x) / (1 + math.exp(x))


def _dot(weights: Mapping[str, float], row: FeatureRow) -> float:
    return sum(weight * row[name] for name, weight in weights.items())
