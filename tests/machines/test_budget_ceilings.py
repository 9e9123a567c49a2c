"""What a run that hits a ceiling ends with: the best edit if it is good enough, else a no."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from pipeline.data.options import Options
from pipeline.data.types import NoFix, Selection
from pipeline.models.base import ModelProfile, Price
from pipeline.models.metering import Meter
from pipeline.models.wrappers import MeteredModel
from pipeline.run_errors import BudgetSpent
from pipeline.selection.voting import is_good_enough
from pipeline.solve import Solver
from pipeline.store import DirStore
from pipeline.workflows.outcome import EFFECTIVE_KEY, EffectiveSetup, Models
from sandbox.frozen import replace
from tests.support.data.solver_shop import (
    ABSOLUTE_EDIT,
    APPROVE,
    COMMON,
    FILES,
    GOOD_EDIT,
    ISSUE,
    SHARP_SCRIPT,
    WRONG_EDIT,
    Shop,
    open_shop,
    sample,
    simple,
)
from tests.support.data.votes import vote_table
from tests.support.fakes import Answer, ScriptedModel

SPENT = BudgetSpent(1.0, 1.0)


async def solved(shop: Shop, answers: dict[str, list[Answer]], **options: Any) -> Any:
    model = ScriptedModel(answers)
    return await shop.solver(model, **options).solve(ISSUE)


async def test_an_edit_that_is_good_enough_gets_a_plain_test_seen_failing_and_passing(
    shop: Shop,
) -> None:
    result = await solved(shop, simple(GOOD_EDIT, APPROVE, reproduction=[SPENT]))
    assert isinstance(result, Selection)
    proof = result.evidence.reproduction
    assert (proof.before.exit_code, proof.after.exit_code) == (1, 0)
    assert "'ok = total([1, 2]) == 3'," in proof.text
    assert "def test_total_subtracts" in proof.text
    assert "$1.00 of $1.00 are spent" in result.evidence.cut_short
    assert result.evidence.title == "Fix: total() subtracts"


async def test_where_pytest_is_not_in_use_the_plain_test_is_one_of_unittest(
    tmp_path: Path,
) -> None:
    case = (
        "import unittest\n\nfrom shop.till import count\n\n\nclass CountTest(unittest.TestCase):\n"
        "    def test_count(self):\n        self.assertEqual(count([1]), 1)\n"
    )
    files = {**FILES, "tests/test_till.py": case, "tests/__init__.py": "", "pyproject.toml": ""}
    shop = await open_shop(tmp_path, files)
    result = await solved(shop, simple(GOOD_EDIT, APPROVE, reproduction=[SPENT]))
    assert isinstance(result, Selection)
    assert "unittest" in result.evidence.reproduction.command
    assert "(unittest.TestCase):" in result.evidence.reproduction.text


TWO: dict[str, list[Answer]] = {
    **COMMON,
    **sample(0, WRONG_EDIT, APPROVE, test=SHARP_SCRIPT),
    **sample(1, ABSOLUTE_EDIT, APPROVE),
}


async def test_one_that_is_not_good_enough_is_an_honest_no_that_a_higher_ceiling_continues(
    shop: Shop,
) -> None:
    no = await solved(shop, {**TWO, "reproduction": [SPENT]}, samples=2, approaches=False)
    assert isinstance(no, NoFix)
    assert no.reason == "out of budget"
    assert no.details[0].count("$1.00") == 2
    assert len(no.details) > 1
    model = ScriptedModel(TWO)
    again = await shop.solver(model, samples=2, approaches=False).solve(ISSUE)
    assert [call for call, _ in model.asked] == ["reproduction"]
    assert isinstance(again, Selection)
    assert again.evidence.cut_short == ""


@pytest.mark.parametrize(
    ("base", "runs", "good"),
    [
        ([2], [[0]], True),
        ([2, 2, 2], [[0, 0, 2], [2, 2, 2], [2, 2, 2]], True),
        ([2, 2], [[0, 2], [2, 0]], False),
        ([2, 2, 2], [[2, 0, 0], [2, 2, 2], [2, 2, 2]], False),
        ([0, 2], [[0, 0], [0, 0]], False),
    ],
)
def test_good_enough_is_its_own_script_and_more_than_half_of_all(
    base: list[int], runs: list[list[int]], good: bool
) -> None:
    assert is_good_enough(vote_table(base, runs), 0) is good


def test_an_edit_without_a_script_of_its_own_is_not_good_enough() -> None:
    assert not is_good_enough(vote_table([2], [[0], [0]]), 1)


async def test_a_ceiling_reached_before_any_edit_says_what_was_spent(shop: Shop) -> None:
    day = BudgetSpent(4.5, 5.0, "repository")
    no = await solved(shop, {**simple(GOOD_EDIT, APPROVE), "testing/0": [day]})
    assert isinstance(no, NoFix)
    assert no.reason == "out of budget"
    (detail,) = no.details
    assert ("$4.50" in detail, "$5.00" in detail) == (True, True)


class Dear(ScriptedModel):
    """Each reply costs what its 5 tokens cost: half a dollar."""

    @property
    def profile(self) -> ModelProfile:
        price = Price(output=100_000)
        return replace(super().profile, price=price, max_output=5)


@pytest.mark.parametrize("dollars", [0.5, 2.5, 3.5])
async def test_no_run_spends_more_than_its_ceiling(shop: Shop, dollars: float) -> None:
    answers = {**simple(GOOD_EDIT, APPROVE), **sample(1, GOOD_EDIT, APPROVE)}
    store = DirStore(shop.folder / "store")
    meter = await Meter.open(store, dollars)
    model = Dear({**answers, "approaches": ["None."]})
    options = Options(samples=2, rankings=1, dollars=dollars)
    solver = Solver(
        Models(solver=MeteredModel(model, meter), scout=None),
        shop.workspace(options, store),
    )
    result = await solver.solve(ISSUE)
    assert meter.ledger.dollars == pytest.approx(len(model.asked) * 0.5)
    assert meter.ledger.dollars <= dollars
    # Ranking, approaches, two tests with their approvals, one edit: then it is good enough.
    assert isinstance(result, Selection) is (dollars >= 3.5)
    kept = await store.load(EFFECTIVE_KEY, EffectiveSetup)
    assert kept is not None
    assert (kept.options, kept.temperature) == (options, 0.5)
