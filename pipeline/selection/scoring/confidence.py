"""Estimates, without running anything, the probability that the best of several edits is right.

Two steps, both fitted on labelled edits of public systems (see the note in `confidence.json`): a
ranking of the candidates, and a calibrated probability for the first of them.
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
"""Whether the weights use the sources' records on other repositories."""

_MAX_LOG_ODDS = 6.0


class Weights(Frozen):
    """The weight of each feature of the evidence."""

    rank: Mapping[str, float]
    probability: Mapping[str, float]
    """In log-odds; `bias` is always added."""


class Fit(Frozen):
    whole: Weights
    without: Mapping[str, Weights]
    """By repository in the data: weights fitted on all others."""


class CalibrationBin(Frozen):
    """Choices of similar confidence."""

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
    """Calibration over choices in repositories that the weights had not seen."""


@cache
def load_shipped_model() -> ConfidenceModel:
    """Load the weights that come with the package."""
    text = (files("pipeline.selection.scoring") / "confidence.json").read_text(encoding="utf-8")
    return ConfidenceModel.model_validate_json(text)


def weights_for(repository: str | None, kind: Kind = "anonymous") -> Weights:
    """The weights for an issue of this repository, never fitted on its own labels."""
    fit = load_shipped_model().fits[kind]
    return fit.without.get(repository or "", fit.whole)


def ranking(evidence: TextEvidence, weights: Weights) -> list[float]:
    """A score for each candidate; only differences within one evidence are meaningful."""
    return [_dot(weights.rank, row) for row in evidence.rows]


def choose(evidence: TextEvidence, weights: Weights) -> list[int]:
    """The best candidates; several only if the evidence does not separate them."""
    return best(range(len(evidence.rows)), ranking(evidence, weights))


def confidence(evidence: TextEvidence, weights: Weights) -> float:
    """The probability, 0 to 1, that the result of `choose` is right; 0 without candidates."""
    return sigmoid(log_odds(evidence, weights)) if evidence.rows else 0.0


def log_odds(evidence: TextEvidence, weights: Weights, chosen: int | None = None) -> float:
    """The log-odds that a candidate is right, from its text and the others'; None: the result of
    `choose`.

    Needs at least one candidate.
    """
    return _dot(
        weights.probability, probability_features(evidence, ranking(evidence, weights), chosen)
    )


def probability_features(
    evidence: TextEvidence, scores: Sequence[float], chosen: int | None = None
) -> FeatureRow:
    """The features of the probability: how far the candidates agree, also on `chosen`.

    `chosen` is None for the first candidate with the highest score.
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
