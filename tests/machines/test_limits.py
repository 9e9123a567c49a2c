"""The limits of a run: money, time, tokens; what is good enough is delivered all the same."""

import math
from pathlib import Path
from typing import Any

import pytest
from pydantic import BaseModel

from pipeline.data.options import Options
from pipeline.data.types import NoFix, Selection
from pipeline.models.base import ModelProfile, Price
from pipeline.models.metering import Meter
from pipeline.models.wrappers import CLOCK_KEY, MeteredModel, RunClock, WorkTime
from pipeline.regression.runner import GRACE_SECONDS
from pipeline.run_errors import BudgetSpent
from pipeline.selection.voting import is_good_enough
from pipeline.solve import Solver
from pipeline.store import DirStore
from pipeline.workflows.outcome import EFFECTIVE_KEY, EffectiveSetup, Models
from sandbox.frozen import replace
from sandbox.program import Execution, Program
from tests.support.data.solver_shop import (
    ABSOLUTE_EDIT,
    APPROVE,
    COMMON,
    FILES,
    GOOD_EDIT,
    ISSUE,
    SHARP_SCRIPT,
    TEST_FILE,
    WRONG_EDIT,
    Shop,
    open_shop,
    sample,
    simple,
)
from tests.support.data.votes import vote_table
from tests.support.fakes import Answer, Killed, ScriptedModel, SubprocessSandbox


class Timed(SubprocessSandbox):
    """Notes how long each script and each command may take."""

    scripts: set[float | None]
    commands: set[float | None]

    async def run(self, program: Program) -> Execution:
        (self.commands if program.script is None else self.scripts).add(program.seconds)
        return await super().run(program)


async def timed(shop: Shop, **options: float) -> Timed:
    sandbox = Timed(await shop.codebase.build_tree())
    sandbox.results = shop.sandbox.results
    sandbox.scripts, sandbox.commands = set(), set()
    shop.sandbox = sandbox
    model = ScriptedModel(simple(GOOD_EDIT, APPROVE))
    limits: dict[str, Any] = options
    assert isinstance(await shop.solver(model, **limits).solve(ISSUE), Selection)
    return sandbox


async def test_a_reproduction_script_may_take_its_seconds(shop: Shop) -> None:
    sandbox = await timed(shop, execution_seconds=77)
    assert sandbox.scripts == {77}


async def test_the_repositorys_tests_may_take_theirs(shop: Shop) -> None:
    sandbox = await timed(shop, suite_seconds=333, nearby_seconds=44)
    assert {333 + GRACE_SECONDS, 44 + GRACE_SECONDS} <= sandbox.commands
    assert max(s for s in sandbox.commands if s is not None) < 900


@pytest.mark.parametrize(("tokens", "whole"), [(60_000, True), (1_000, False)])
async def test_of_a_file_that_does_not_fit_into_the_context_parts_are_shown(
    tmp_path: Path, remembered: dict[tuple[object, ...], Execution], tokens: int, whole: bool
) -> None:
    large = "def total_of_all():\n    return 0\n\n\n" * 300
    shop = await open_shop(tmp_path, {**FILES, "shop/large.py": large})
    shop.sandbox.results = remembered  # the file that is added has no part in what is run
    ranking = "<ranking>\nshop/till.py\nshop/large.py\n</ranking>"
    more: dict[str, list[Answer]] = {"ranking/0": [ranking]}
    model = ScriptedModel(simple(GOOD_EDIT, APPROVE, **more))
    solver = shop.solver(model, scout=False, context_tokens=1_000, context_cap=tokens)
    result = await solver.solve(ISSUE)
    assert isinstance(result, Selection)
    context = result.evidence.context
    (shown,) = (file for file in context.files if file.path == "shop/large.py")
    assert shown.partial is not whole
    assert sum(file.tokens for file in context.files) <= tokens


async def test_what_a_small_window_had_no_room_for_is_told(
    tmp_path: Path, remembered: dict[tuple[object, ...], Execution]
) -> None:
    large = "def total_of_all():\n    return 0\n\n\n" * 3_000
    more = {f"shop/large{n}.py": large for n in range(3)}
    shop = await open_shop(tmp_path, {**FILES, **more})
    shop.sandbox.results = remembered
    ranking = "<ranking>\n" + "\n".join(["shop/till.py", *more]) + "\n</ranking>"
    for window, told in ((200_000, False), (40_000, True)):
        asked: dict[str, list[Answer]] = {"ranking/0": [ranking]}
        model = ScriptedModel(simple(GOOD_EDIT, APPROVE, **asked), window=window)
        store = DirStore(tmp_path / f"store-{window}")
        result = await shop.solver(model, scout=False, store=store).solve(ISSUE)
        assert isinstance(result, Selection)
        assert ("20,000" in str(result.evidence.context.not_read)) is told


async def test_the_model_is_asked_to_keep_to_the_tokens_of_the_context(shop: Shop) -> None:
    model = ScriptedModel(simple(GOOD_EDIT, APPROVE))
    await shop.solver(model, scout=False, context_tokens=4_321).solve(ISSUE)
    assert "4321 tokens" in model.conversations["ranking/0"][0].text


MINUTES = 10


class StoreKilledAtChoice(DirStore):
    """Kills the run when its samples are done and nothing is chosen yet."""

    async def save(self, key: str, value: BaseModel) -> None:
        if key.startswith("question/"):
            raise Killed
        await super().save(key, value)


async def resumed_at(
    shop: Shop, share: float, **options: float
) -> tuple[Selection | NoFix, ScriptedModel]:
    """A run whose samples are done, when `share` of its time is over."""
    folder = shop.folder / "timed"
    settings: Any = {"minutes": MINUTES, **options}
    first = ScriptedModel(simple(GOOD_EDIT, APPROVE))
    killed = shop.solver(first, store=StoreKilledAtChoice(folder), **settings)
    with pytest.raises(Killed):
        await killed.solve(ISSUE)
    store = DirStore(folder)
    await store.save(CLOCK_KEY, WorkTime(seconds=share * MINUTES * 60))
    model = ScriptedModel({"reproduction": [TEST_FILE]})
    return await shop.solver(model, store=store, **settings).solve(ISSUE), model


async def test_the_suite_leaves_the_reproduction_test_its_time(shop: Shop) -> None:
    result, model = await resumed_at(shop, 0.9)
    assert isinstance(result, Selection)
    assert [call for call, _ in model.asked] == ["reproduction"]
    suite = result.evidence.suite
    assert suite is not None
    assert suite.broken == ()
    assert "nearest to the edit" in suite.chosen
    assert result.evidence.reproduction.rung == "new file"


async def test_when_the_time_is_over_the_chosen_edit_is_still_delivered(shop: Shop) -> None:
    result, model = await resumed_at(shop, 1.1, nearby_seconds=0)
    assert isinstance(result, Selection)
    assert model.asked == []
    proof = result.evidence
    assert proof.suite is None
    assert "time" in proof.suite_problem
    assert proof.reproduction.rung == "wrapped script"
    assert "10 minutes" in proof.cut_short


async def test_without_an_edit_it_is_an_honest_no_that_more_time_continues(shop: Shop) -> None:
    store = DirStore(shop.folder / "late")
    await store.save(CLOCK_KEY, WorkTime(seconds=0.7 * MINUTES * 60))
    answers = simple(GOOD_EDIT, APPROVE)
    late = shop.solver(ScriptedModel(answers), store=store, minutes=MINUTES)
    no = await late.solve(ISSUE)
    assert isinstance(no, NoFix)
    assert (no.reason, no.is_final) == ("out of time", False)
    again = shop.solver(ScriptedModel(answers), store=store, minutes=2 * MINUTES)
    assert isinstance(await again.solve(ISSUE), Selection)


async def test_the_time_between_two_starts_does_not_count(shop: Shop) -> None:
    store, ticks = DirStore(shop.folder / "clock"), iter([0.0, 90.0])
    first = RunClock(MINUTES, now=lambda: next(ticks))
    await first.save(store)
    second = await RunClock.open(store, MINUTES)
    assert second.seconds_left("reproduction") == pytest.approx(MINUTES * 60 - 90, abs=5)
    assert (
        second.seconds_left("samples")
        < second.seconds_left("choice")
        < second.seconds_left("reproduction")
    )
    assert RunClock(0).seconds_left("samples") == math.inf


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
    assert "$1.00 of $1.00 is spent" in result.evidence.cut_short
    assert result.evidence.title == "Fix: total() subtracts"


async def test_where_pytest_is_not_in_use_the_plain_test_is_one_of_unittest(tmp_path: Path) -> None:
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
        Models(solver=MeteredModel(model, meter), scout=None), shop.workspace(options, store)
    )
    result = await solver.solve(ISSUE)
    assert meter.ledger.dollars == pytest.approx(len(model.asked) * 0.5)
    assert meter.ledger.dollars <= dollars
    # Ranking, approaches, two tests with their approvals, one edit: then it is good enough.
    assert isinstance(result, Selection) is (dollars >= 3.5)
    kept = await store.load(EFFECTIVE_KEY, EffectiveSetup)
    assert kept is not None
    assert (kept.options, kept.temperature) == (options, 0.5)
