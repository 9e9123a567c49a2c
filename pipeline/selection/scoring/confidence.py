"""The probability that the best candidate is right, recalibrated.

Two steps, both fitted on labelled edits of public systems (see the note in `confidence.json`): a
ranking of the candidates, and a calibrated probability for the first of them.
"""

import math
from collections.abc import Mapping, Sequence
from functools import cache
from importlib.resources import files
from typing import Final

from pipeline.data.options import Recalibration
from pipeline.selection.scoring.features import FeatureRow, TextEvidence, best
from prompts.text import pluralize
from sandbox.frozen import Frozen

BASE_RATE = 0.5
"""Of edits that are right, where nothing is known: in a language without data (its weight is that
of the fit), and where what the issue reports was not seen."""
_MOST_UNFITTED = 0.75
MOST_UNTESTED = 0.6
"""The highest probabilities in a language without data, and where the repository's tests did not
run or have one exit code for all. Nothing was measured there: they say so."""


UNCALIBRATED = "The probability is not calibrated for"


def limit_unfitted(probability: float, *, tests: int) -> float:
    """The probability in a language on which nothing was fitted: half-way to the base rate, and
    below a limit, by how many of the repository's tests ran."""
    most = _MOST_UNFITTED if tests > 1 else MOST_UNTESTED if tests else BASE_RATE
    return min(most, (probability + BASE_RATE) / 2)


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
    fit: Fit
    curve: tuple[CalibrationBin, ...]
    """Calibration over choices in repositories that the weights had not seen."""


@cache
def load_shipped_model() -> ConfidenceModel:
    """Load the weights that come with the package."""
    text = (files("pipeline.selection.scoring") / "confidence.json").read_text(encoding="utf-8")
    return ConfidenceModel.model_validate_json(text)


def weights_for(repository: str | None) -> Weights:
    """The weights for an issue of this repository, never fitted on its own labels."""
    fit = load_shipped_model().fit
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
    chosen = choose(evidence, weights)[0] if chosen is None else chosen
    return _dot(weights.probability, probability_features(evidence, chosen))


def probability_features(evidence: TextEvidence, chosen: int) -> FeatureRow:
    """The features of the probability: how far the candidates agree, also on `chosen`."""
    row = {f"chosen_{name}": value for name, value in evidence.rows[chosen].items()}
    return {"bias": 1.0, **evidence.agreement, **row}


def sigmoid(x: float) -> float:
    return 1 / (1 + math.exp(-x)) if x >= 0 else math.exp(x) / (1 + math.exp(x))


def _dot(weights: Mapping[str, float], row: FeatureRow) -> float:
    return sum(weight * row[name] for name, weight in weights.items())


MIN_OUTCOMES: Final = 30
"""How many edits must be decided: the share of right ones among 30 has a standard error of at most
9 points, and less than that is no error of the confidence that people would notice."""
_MOST_SHIFT: Final = 4.0
_EDGE: Final = 1e-6


def fit_recalibration(
    decided: Sequence[tuple[float, float]], language: str = ""
) -> Recalibration | None:
    """The correction that makes stated confidences fit the outcomes; None below `MIN_OUTCOMES`.

    In a `language` on which the confidence was not fitted, any outcome counts: nothing else is
    known there.

    `decided` holds, for each edit, the stated probability and how far the edit was right, both from
    0 to 1. One number is fitted, the shift of the log-odds: more would follow chance in so few. It
    is the most probable one under a normal prior around 0.
    """
    if len(decided) < (1 if language else MIN_OUTCOMES):
        return None
    odds = [(to_log_odds(stated), right) for stated, right in decided]
    low, high = -_MOST_SHIFT, _MOST_SHIFT
    while high - low > 1e-4:  # the slope of the log-posterior falls with the shift
        shift = (low + high) / 2
        # Before anything is known about the repository, the shift has a variance of 1; in another
        # language of a quarter: one outcome alone moves no probability by five points.
        slope = (
            sum(right - sigmoid(z + shift) for z, right in odds) - (4 if language else 1) * shift
        )
        low, high = (shift, high) if slope > 0 else (low, shift)
    shift = round((low + high) / 2, 3)
    return Recalibration(shift=shift, outcomes=len(decided), language=language)


def recalibrate(confidence: float, found: Recalibration | None) -> float:
    """The confidence with the correction `found`, 0 to 1."""
    return sigmoid(to_log_odds(confidence) + found.shift) if found else confidence


def undo_recalibration(confidence: float, applied: Recalibration | None) -> float:
    """The confidence before the correction `applied`, 0 to 1."""
    return sigmoid(to_log_odds(confidence) - applied.shift) if applied else confidence


def explain_recalibration(confidence: float, applied: Recalibration) -> str:
    """Where the difference to other repositories comes from, as a sentence."""
    return (
        f"It takes into account what became of "
        f"{pluralize(applied.outcomes, 'earlier pull request')} of mine in this repository; "
        f"without that, I would say {undo_recalibration(confidence, applied):.0%}."
    )


def to_log_odds(probability: float) -> float:
    inside = min(max(probability, _EDGE), 1 - _EDGE)
    return math.log(inside / (1 - inside))
