"""How the confidence follows what became of earlier edits."""

from __future__ import annotations

import pytest

from pipeline.selection.scoring.confidence import (
    MIN_OUTCOMES,
    fit_recalibration,
    undo_recalibration,
)
from sandbox.frozen import replace


def test_it_needs_enough_outcomes_and_moves_towards_them_but_not_all_the_way() -> None:
    wrong = [(0.8, 0.0)] * 20 + [(0.8, 1.0)] * 10
    assert fit_recalibration(wrong[: MIN_OUTCOMES - 1]) is None
    found = fit_recalibration(wrong)
    assert found is not None
    assert found.outcomes == MIN_OUTCOMES
    corrected = undo_recalibration(0.8, replace(found, shift=-found.shift))
    assert 1 / 3 < corrected < 0.5, "a third was right; the prior holds back a little"
    assert undo_recalibration(corrected, found) == pytest.approx(0.8)


def test_what_fits_already_is_hardly_changed_and_extremes_stay_finite() -> None:
    fitting = [(0.75, 1.0)] * 30 + [(0.75, 0.0)] * 10
    found = fit_recalibration(fitting)
    assert found is not None
    assert abs(found.shift) < 0.01
    for outcome in (0.0, 1.0):
        extreme = fit_recalibration([(1 - outcome, outcome)] * 100)
        assert extreme is not None
        assert abs(extreme.shift) <= 4
