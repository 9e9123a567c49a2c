from __future__ import annotations

import ast
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from tests.support.sources import ROOT, parse

if TYPE_CHECKING:
    from tests.benchmarks.fitting.fit_confidence import Vector

# The tests import NumPy and SciPy: a process that only collects this file need not load them.


@pytest.mark.slow
def test_the_least_of_a_quadratic_by_signs_meets_the_optimality_conditions() -> None:
    import numpy as np

    from tests.benchmarks.fitting.fit_confidence import minimise

    draw = np.random.default_rng(0)
    for _ in range(50):
        root: Vector = draw.normal(size=(8, 8))
        bend: Vector = root @ root.T + 0.01 * np.eye(8)
        pull: Vector = draw.normal(size=8)
        signs = [int(sign) for sign in draw.integers(-1, 2, size=8)]

        def loss(w: Vector, bend: Vector = bend, pull: Vector = pull) -> tuple[float, Vector]:
            return float(w @ bend @ w / 2 - pull @ w), bend @ w - pull

        found, held = minimise(loss, signs), np.array(signs, float)
        slope = bend @ found - pull
        assert (held * found >= 0).all()
        free = (held == 0) | (found != 0)
        assert np.abs(slope[free]).max(initial=0) < 1e-6
        assert (held[~free] * slope[~free] >= -1e-6).all()


@pytest.mark.slow
def test_weights_keep_their_sign_and_the_others_are_found() -> None:
    import numpy as np

    from tests.benchmarks.fitting.fit_confidence import minimise

    # w0^4 + (w0 - 1)^2 + (w1 - w0 - 2)^2, least without bounds at w1 > 0.
    def loss(w: Vector) -> tuple[float, Vector]:
        gap = w[1] - w[0] - 2
        slope = np.array([4 * w[0] ** 3 + 2 * (w[0] - 1) - 2 * gap, 2 * gap])
        return float(w[0] ** 4 + (w[0] - 1) ** 2 + gap**2), slope

    loose, held = minimise(loss, [0, 0]), minimise(loss, [0, -1])
    assert loose[1] == pytest.approx(loose[0] + 2)
    assert held[1] == 0
    assert loss(held)[1][0] == pytest.approx(0, abs=1e-6)


@pytest.mark.slow
def test_a_fit_that_does_not_converge_is_refused() -> None:
    import numpy as np

    from tests.benchmarks.fitting.fit_confidence import minimise

    def endless(w: Vector) -> tuple[float, Vector]:
        return -float(w.sum()), -np.ones(len(w))

    with pytest.raises(ArithmeticError, match="did not converge"):
        minimise(endless, [1, 1])


@pytest.mark.slow
def test_without_scipy_the_command_says_what_to_install() -> None:
    program = (
        "import sys; sys.modules['scipy'] = None; import tests.benchmarks.fitting.fit_confidence"
    )
    ended = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert ended.returncode == 1
    assert ended.stderr.startswith("Fitting needs scipy")
    assert "uv sync" in ended.stderr
    assert "Traceback" not in ended.stderr


def test_the_command_runs_after_all_it_uses_is_defined() -> None:
    last = parse(ROOT / "tests/benchmarks/fitting/fit_confidence.py").body[-1]
    assert isinstance(last, ast.If)
    assert ast.unparse(last.test) == "__name__ == '__main__'"


def test_a_number_of_which_no_direction_is_known_is_refused() -> None:
    from tests.benchmarks.fitting.fit_confidence import weight_sign

    assert (weight_sign("chosen_added"), weight_sign("margin"), weight_sign("record_best")) == (
        -1,
        1,
        0,
    )
    with pytest.raises(KeyError, match="colour"):
        weight_sign("colour")
