"""Corrects the confidence by what became of a repository's earlier edits."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Final

from pipeline.codebase.text import pluralize
from pipeline.options import Recalibration
from pipeline.selection.scoring.confidence import sigmoid

MIN_OUTCOMES: Final = 30
"""How many edits must be decided: the share of right ones among 30 has a standard error of at most
9 points, and less than that is no error of the confidence that people would notice."""
_PRIOR_VARIANCE: Final = 1.0
"""Of the shift in log-odds, before anything is known of the repository."""
_MOST_SHIFT: Final = 4.0
_EDGE: Final = 1e-6


def fit_recalibration(decided: Sequence[tuple[float, float]]) -> Recalibration | None:
    """The correction that makes stated confidences fit the outcomes; None below `MIN_OUTCOMES`.

    `decided` holds, for each edit, the stated probability and how far the edit was right, both from
    0 to 1. One number is fitted, the shift of the log-odds: more would follow chance in so few. It
    is the most probable one under a normal prior around 0.
    """
    if len(decided) < MIN_OUTCOMES:
        return None
    odds = [(to_log_odds(stated), right) for stated, right in decided]
    low, high = -_MOST_SHIFT, _MOST_SHIFT
    while high - low > 1e-4:  # the slope of the log-posterior falls with the shift
        shift = (low + high) / 2
        slope = sum(right - sigmoid(z + shift) for z, right in odds) - shift / _PRIOR_VARIANCE
        low, high = (shift, high) if slope > 0 else (low, shift)
    return Recalibration(shift=round((low + high) / 2, 3), outcomes=len(decided))


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
