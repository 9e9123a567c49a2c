"""The offline fits: confidence and likelihood ratios."""

import ast
import random
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from pipeline.lab.grading import ExecutedEdit
from pipeline.lab.scoring import calibration_error
from pipeline.selection.scoring.standings import FittedRatios, load_shipped_ratios
from tests.benchmarks.fitting import fit_ratios as fit
from tests.support.sources import ROOT, parse

if TYPE_CHECKING:
    from tests.benchmarks.fitting.fit_confidence import Vector

# The tests import NumPy and SciPy: a process that only collects this file need not load them.


def test_the_least_of_a_quadratic_by_signs_meets_the_optimality_conditions() -> None:
    import numpy as np

    from tests.benchmarks.fitting.fit_confidence import minimise

    draw = np.random.default_rng(0)
    for _ in range(50):
        root: Vector = draw.normal(size=(8, 8))
        bend: Vector = root @ root.T + 0.01 * np.eye(8)
        pull: Vector = draw.normal(size=8)
        signs = [int(sign) for sign in draw.integers(-1, 2, size=8)]

        def loss(
            w: "Vector", bend: "Vector" = bend, pull: "Vector" = pull
        ) -> "tuple[float, Vector]":
            return float(w @ bend @ w / 2 - pull @ w), bend @ w - pull

        found, held = minimise(loss, signs), np.array(signs, float)
        slope = bend @ found - pull
        assert (held * found >= 0).all()
        free = (held == 0) | (found != 0)
        assert np.abs(slope[free]).max(initial=0) < 1e-6
        assert (held[~free] * slope[~free] >= -1e-6).all()


def test_weights_keep_their_sign_and_the_others_are_found() -> None:
    import numpy as np

    from tests.benchmarks.fitting.fit_confidence import minimise

    # w0^4 + (w0 - 1)^2 + (w1 - w0 - 2)^2, least without bounds at w1 > 0.
    def loss(w: "Vector") -> "tuple[float, Vector]":
        gap = w[1] - w[0] - 2
        slope = np.array([4 * w[0] ** 3 + 2 * (w[0] - 1) - 2 * gap, 2 * gap])
        return float(w[0] ** 4 + (w[0] - 1) ** 2 + gap**2), slope

    loose, held = minimise(loss, [0, 0]), minimise(loss, [0, -1])
    assert loose[1] == pytest.approx(loose[0] + 2)
    assert held[1] == 0
    assert loss(held)[1][0] == pytest.approx(0, abs=1e-6)


def test_a_fit_that_does_not_converge_is_refused() -> None:
    import numpy as np

    from tests.benchmarks.fitting.fit_confidence import minimise

    def endless(w: "Vector") -> "tuple[float, Vector]":
        return -float(w.sum()), -np.ones(len(w))

    with pytest.raises(ArithmeticError, match="did not converge"):
        minimise(endless, [1, 1])


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

    assert [weight_sign(name) for name in ("chosen_added", "support", "bias")] == [-1, 1, 0]
    with pytest.raises(KeyError, match="colour"):
        weight_sign("colour")


def row(
    instance: str, right: bool, *, passes: bool = True, breaks: bool | None = False
) -> ExecutedEdit:
    return ExecutedEdit(
        instance_id=instance,
        repo=instance.partition("-")[0],
        member="m",
        right=right,
        fixed=(passes, passes),
        broken=None if breaks is None else ("t",) * breaks,
    )


def drawn(repos: int, instances: int, *, breaks: float, passes: float) -> list[ExecutedEdit]:
    draw = random.Random(1)
    return [
        row(f"r{repo}-{n}", right, passes=right or draw.random() < passes,
            breaks=draw.random() < (0.02 if right else breaks))
        for repo in range(repos) for n in range(instances) for right in (True, False)
    ]  # fmt: skip


def test_an_instance_counts_once_however_many_edits_it_has() -> None:
    rows = [row("r-1", False, breaks=True)] * 9 + [row("r-2", False), row("r-3", False)]
    seen = fit.count_ratios(rows, fit.ASSUMED, 0)
    assert seen.breaks.if_wrong == pytest.approx(1 / 3, abs=1e-3)


def test_few_instances_change_nothing_and_more_leave_the_assumed_rates_by_and_by() -> None:
    for repos, instances in ((1, 300), (4, 4)):
        fitted = fit.fit(drawn(repos, instances, breaks=0.9, passes=0.1))
        assert (fitted.fitted, fitted.ratios) == (False, fit.ASSUMED)
        assert fitted.seen.breaks.if_wrong > 0.6
    few = fit.fit(drawn(4, 5, breaks=0.9, passes=0.1)).ratios
    many = fit.fit(drawn(4, 300, breaks=0.9, passes=0.1)).ratios
    assert fit.ASSUMED.breaks.if_wrong < few.breaks.if_wrong < 0.8
    assert many.breaks.if_wrong == pytest.approx(0.9, abs=0.05)
    # Half of the scripts are assumed to tell nothing.
    assert many.passes.if_right == pytest.approx(0.75, abs=0.01)
    assert many.passes.if_wrong == pytest.approx(0.3, abs=0.03)
    assert few.passes.if_wrong > many.passes.if_wrong


def test_edits_of_which_near_tests_say_nothing_count_for_scripts_alone() -> None:
    found = fit.count_ratios([row("r-1", False, breaks=None, passes=False)], fit.ASSUMED, 0)
    assert found.passes.if_wrong < 0.01
    assert (
        fit.count_ratios([row("r-1", True, breaks=None)], fit.ASSUMED, 5).breaks
        == fit.ASSUMED.breaks
    )


def test_each_repository_is_checked_with_ratios_of_the_others() -> None:
    rows = drawn(4, 200, breaks=0.6, passes=0.4)
    fitted = fit.fit(rows)
    assert (fitted.repositories, fitted.instances, fitted.edits) == (4, 800, 1600)
    assert fitted.errors["near tests, fitted"] < 0.05 < fitted.errors["near tests, assumed"]
    # A repository of another kind does not see its own.
    strange = [row(f"odd-{n}", True, breaks=True) for n in range(50)]
    stated = [p for p, _ in fit.check([*rows, *strange], halves=False)][:50]
    assert max(stated) < 0.1


def test_the_assumed_rates_are_those_of_halves_that_right_edits_pass() -> None:
    halves = fit.of_halves(fit.ASSUMED)
    assert halves.passes.if_wrong == pytest.approx(0.4)
    assert halves.passes.if_right > 0.99
    assert fit.of_scripts(halves).passes.if_wrong == pytest.approx(fit.ASSUMED.passes.if_wrong)


def test_the_command_reads_executions_and_writes_the_file(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    source, out = tmp_path / "executions.jsonl", tmp_path / "out.json"
    rows = drawn(2, 5, breaks=0.5, passes=0.5)
    source.write_text("".join(one.model_dump_json() + "\n" for one in rows))
    assert fit.main([str(source), str(out)]) == 0
    assert FittedRatios.model_validate_json(out.read_text()).edits == 20
    assert "10 instances" in capsys.readouterr().out


def test_the_shipped_ratios_say_what_stands_behind_them() -> None:
    shipped = load_shipped_ratios()
    assert str(shipped.edits) in shipped.data
    assert "tests.benchmarks.fitting.fit_ratios" in shipped.command
    assert shipped.fitted or shipped.ratios == fit.ASSUMED
    stated = shipped.errors.get("near tests and halves, fitted", 0.0)
    assert stated == pytest.approx(calibration_error(shipped.curve), abs=1e-3)
    for rate, more in ((shipped.ratios.passes, True), (shipped.ratios.breaks, False)):
        assert (rate.if_right > rate.if_wrong) is more
