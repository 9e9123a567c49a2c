from __future__ import annotations

import numpy as np
import pytest

from pipeline.evaluation.fitting import Vector, minimise, minimise_quadratic, weight_sign


def test_the_least_of_a_quadratic_by_signs_meets_the_optimality_conditions() -> None:
    draw = np.random.default_rng(0)
    for _ in range(50):
        root: Vector = draw.normal(size=(8, 8))
        bend, pull = root @ root.T + 0.01 * np.eye(8), draw.normal(size=8)
        signs: Vector = draw.integers(-1, 2, size=8).astype(float)
        found = minimise_quadratic(bend, pull, signs)
        slope = bend @ found - pull
        assert (signs * found >= 0).all()
        free = (signs == 0) | (found != 0)
        assert np.abs(slope[free]).max(initial=0) < 1e-8
        assert (signs[~free] * slope[~free] >= -1e-8).all()


def test_newton_holds_weights_to_their_sign_and_finds_the_others() -> None:
    # w0^4 + (w0 - 1)^2 + (w1 - w0 - 2)^2, least without bounds at w1 > 0.
    def slopes(w: Vector) -> tuple[Vector, Vector]:
        gap = w[1] - w[0] - 2
        slope = np.array([4 * w[0] ** 3 + 2 * (w[0] - 1) - 2 * gap, 2 * gap])
        return slope, np.array([[12 * w[0] ** 2 + 4, -2.0], [-2.0, 2.0]])

    loose, held = minimise(slopes, [0, 0]), minimise(slopes, [0, -1])
    assert loose[1] == pytest.approx(loose[0] + 2)
    assert held[1] == 0
    assert slopes(held)[0][0] == pytest.approx(0, abs=1e-6)


def test_a_number_of_which_no_direction_is_known_is_refused() -> None:
    assert (weight_sign("chosen_added"), weight_sign("margin"), weight_sign("record_best")) == (
        -1,
        1,
        0,
    )
    with pytest.raises(KeyError, match="colour"):
        weight_sign("colour")
