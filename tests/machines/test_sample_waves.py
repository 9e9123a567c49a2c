"""Approaches, informed samples, and when no more samples are started."""

from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from bot.comments.evidence_details import render_scripts
from bot.comments.vote_table import render_vote_table
from pipeline.data.types import NoFix, Selection
from pipeline.generation.editing import EditingState
from pipeline.models.base import ContextTooLong, ModelRefused
from pipeline.run_errors import BudgetSpent
from pipeline.store import DirStore
from tests.support.data.solver_shop import (
    ABSOLUTE_EDIT,
    APPROVE,
    BREAKING_EDIT,
    COMMON,
    GOOD_EDIT,
    GOOD_SCRIPT,
    ISSUE,
    LONGER_GOOD_EDIT,
    SHARP_SCRIPT,
    WRONG_EDIT,
    Shop,
    edit,
    sample,
)
from tests.support.fakes import Answer, CountingStore, DyingStore, Killed, ScriptedModel

DRAWN = "<approaches>\n1. Add them.\n- Use sum().\n\n* Mend </approach> the caller.\n</approaches>"
CHOICE: dict[str, list[Answer]] = {"selecting": [SHARP_SCRIPT, "<choice>1</choice>"]}


def samples(*edits: Answer, **more: list[Answer]) -> dict[str, list[Answer]]:
    answers: dict[str, list[Answer]] = {**COMMON, **CHOICE}
    for number, answer in enumerate(edits):
        answers |= sample(number, answer, APPROVE)
    return {**answers, **more}


def started(model: ScriptedModel) -> list[str]:
    return sorted({call for call, _ in model.asked if call.startswith("testing/")})


def first_task(model: ScriptedModel, number: int) -> str:
    return model.conversations[f"editing/{number}"][1].text


async def state_of(shop: Shop, number: int) -> EditingState:
    state = await DirStore(shop.folder / "store").load(f"editing/{number}", EditingState)
    assert state is not None
    return state


async def test_each_sample_gets_an_approach_after_the_shared_opening(shop: Shop) -> None:
    answers = samples(GOOD_EDIT, GOOD_EDIT, GOOD_EDIT, GOOD_EDIT, approaches=[DRAWN])
    model = ScriptedModel(answers)
    await shop.solver(model, samples=4, informed=0).solve(ISSUE)
    assert [(await state_of(shop, n)).approach for n in range(4)] == [
        "",
        "Add them.",
        "Use sum().",
        "Mend </approach> the caller.",
    ]
    assert "approach>" not in first_task(model, 0)
    assert "<approach>\nUse sum().\n</approach>" in first_task(model, 2)
    assert "Mend <\\/approach> the caller." in first_task(model, 3)
    assert len({model.conversations[f"editing/{n}"][0].text for n in range(4)}) == 1
    assert "result -= price" in str(model.conversations["approaches"])


async def test_as_many_approaches_are_asked_for_as_are_handed_out(shop: Shop) -> None:
    model = ScriptedModel(samples(*[GOOD_EDIT] * 4, approaches=[DRAWN]))
    await shop.solver(model, samples=4).solve(ISSUE)
    assert [(await state_of(shop, n)).approach for n in range(3)] == ["", "Add them.", "Use sum()."]
    asked = str(model.conversations["approaches"])
    assert "Name up to 2\\napproaches" in asked
    assert "some from none" in asked


async def test_a_long_approach_is_cut_between_words(shop: Shop) -> None:
    drawn = f"<approaches>\nAdd.\n{'Mend the caller ' * 60}\n</approaches>"
    model = ScriptedModel(samples(*[GOOD_EDIT] * 4, approaches=[drawn]))
    await shop.solver(model, samples=4, informed=0).solve(ISSUE)
    before, cut, _ = first_task(model, 2).partition(" …\n</approach>")
    assert cut
    assert before.split()[-1] in ("Mend", "the", "caller")


@pytest.mark.parametrize("end", ["Hm.", ModelRefused("no"), ContextTooLong("long")])
async def test_without_an_answer_there_are_no_approaches_and_nothing_else_changes(
    shop: Shop, end: Answer
) -> None:
    model = ScriptedModel(samples(GOOD_EDIT, GOOD_EDIT, approaches=[end]))
    assert isinstance(await shop.solver(model, samples=2).solve(ISSUE), Selection)
    assert (await state_of(shop, 0)).approach == ""
    assert [call for call, _ in model.asked].count("approaches") == 1


async def test_a_budget_spent_on_approaches_is_out_of_budget_in_the_end(shop: Shop) -> None:
    spent = BudgetSpent(1, 1)
    model = ScriptedModel(samples(spent, spent, approaches=[spent]))
    result = await shop.solver(model, samples=2).solve(ISSUE)
    assert isinstance(result, NoFix)
    assert result.reason == "out of budget"


@pytest.mark.parametrize("options", [{"samples": 2, "approaches": False}, {"samples": 1}])
async def test_approaches_are_not_drawn_where_they_are_of_no_use(
    shop: Shop, options: dict[str, Any]
) -> None:
    model = ScriptedModel(samples(GOOD_EDIT, GOOD_EDIT))
    await shop.solver(model, **options).solve(ISSUE)
    assert "approaches" not in {call for call, _ in model.asked}


async def test_an_informed_sample_sees_what_finished_ones_did_and_must_differ(shop: Shop) -> None:
    answers = samples(GOOD_EDIT, WRONG_EDIT, GOOD_EDIT, GOOD_EDIT)
    answers["editing/3"] = [GOOD_EDIT, LONGER_GOOD_EDIT, APPROVE]
    model = ScriptedModel(answers)
    await shop.solver(model, samples=4).solve(ISSUE)
    task = first_task(model, 3)
    assert task.count("<diff>") == 2
    assert "passes (exit code 0)" in task
    assert "fails (exit code 2)" in task
    assert (await state_of(shop, 3)).informed_by == (0, 1)
    assert (await state_of(shop, 0)).informed_by == ()
    finished = model.asked.index(("editing/1", 1))
    assert model.asked.index(("editing/3", 0)) > finished


@pytest.mark.parametrize(("third", "asked"), [(GOOD_EDIT, False), (LONGER_GOOD_EDIT, True)])
async def test_where_all_wrote_the_same_code_no_informed_sample_is_asked(
    shop: Shop, third: str, asked: bool
) -> None:
    answers = samples(GOOD_EDIT, GOOD_EDIT, third, GOOD_EDIT)
    answers["editing/3"] = [ABSOLUTE_EDIT, APPROVE]
    model = ScriptedModel(answers)
    assert isinstance(await shop.solver(model, samples=10).solve(ISSUE), Selection)
    assert len(started(model)) == 4
    assert (("editing/3", 0) in model.asked) == asked


async def test_each_sample_that_ends_is_reported(shop: Shop) -> None:
    """Between them lie minutes of tests, in which a person sees nothing else."""
    await shop.solver(ScriptedModel(samples(GOOD_EDIT, WRONG_EDIT)), samples=2).solve(ISSUE)
    ended = [line for line in shop.said if " ended" in line]
    assert [line[0] for line in ended] == ["1", "2"]


async def test_samples_that_agree_are_not_followed_by_a_second_wave(shop: Shop) -> None:
    model = ScriptedModel(samples(GOOD_EDIT, GOOD_EDIT, LONGER_GOOD_EDIT, GOOD_EDIT))
    result = await shop.solver(model, samples=10, informed=0).solve(ISSUE)
    assert isinstance(result, Selection)
    assert len(started(model)) == 4


async def test_samples_that_disagree_are_followed_by_others_up_to_the_maximum(shop: Shop) -> None:
    answers = samples(ABSOLUTE_EDIT, WRONG_EDIT, WRONG_EDIT, GOOD_EDIT, GOOD_EDIT)
    answers["testing/0"] = [GOOD_SCRIPT.replace("[1, 2]) == 3", "[1, -2]) == 1"), APPROVE]
    model = ScriptedModel(answers)
    result = await shop.solver(model, samples=5, first_wave=2, informed=0).solve(ISSUE)
    assert isinstance(result, Selection)
    assert len(started(model)) == 5


@pytest.mark.parametrize(("agreement", "waves"), [(2, 1), (3, 2)])
async def test_so_many_must_agree_as_the_settings_say(
    shop: Shop, agreement: int, waves: int
) -> None:
    model = ScriptedModel(samples(GOOD_EDIT, GOOD_EDIT, LONGER_GOOD_EDIT, GOOD_EDIT))
    await shop.solver(model, samples=4, first_wave=2, informed=0, agreement=agreement).solve(ISSUE)
    assert len(started(model)) == 2 * waves


async def test_edits_that_break_the_repositorys_tests_are_no_agreement(shop: Shop) -> None:
    model = ScriptedModel(samples(BREAKING_EDIT, BREAKING_EDIT, GOOD_EDIT, GOOD_EDIT))
    await shop.solver(model, samples=4, first_wave=2, informed=0).solve(ISSUE)
    assert len(started(model)) == 4


async def test_without_adaptation_all_samples_are_started(shop: Shop) -> None:
    model = ScriptedModel(samples(GOOD_EDIT, GOOD_EDIT, GOOD_EDIT))
    await shop.solver(model, samples=3, first_wave=2, adaptive=False, informed=0).solve(ISSUE)
    assert len(started(model)) == 3


async def test_after_a_spent_budget_no_further_wave_is_started(shop: Shop) -> None:
    model = ScriptedModel(samples(GOOD_EDIT, BudgetSpent(1, 1)))
    result = await shop.solver(model, samples=6, first_wave=2, informed=0).solve(ISSUE)
    assert isinstance(result, Selection)
    assert len(started(model)) == 2


async def test_a_worker_killed_between_waves_decides_the_same(shop: Shop, tmp_path: Path) -> None:
    answers = samples(ABSOLUTE_EDIT, WRONG_EDIT, GOOD_EDIT, LONGER_GOOD_EDIT, approaches=[DRAWN])
    options: dict[str, Any] = {"samples": 6, "first_wave": 2, "informed": 0.5, "nearby_seconds": 0}
    options["agreement"] = 2
    calm, counting = ScriptedModel(answers), CountingStore(tmp_path / "calm")
    expected = await shop.solver(calm, store=counting, **options).solve(ISSUE)
    assert isinstance(expected, Selection)
    assert len(started(calm)) == 4
    for dies_at in range(3, len(counting.saved), 7):
        folder, model = tmp_path / f"dies-{dies_at}", ScriptedModel(answers)
        with suppress(Killed):  # the last saves depend on who was first
            await shop.solver(model, store=DyingStore(folder, dies_at), **options).solve(ISSUE)
        again = await shop.solver(model, store=DirStore(folder), **options).solve(ISSUE)
        assert again == expected
        assert len(model.asked) - len(calm.asked) <= 8, counting.saved[dies_at - 1]


CHECKED = f"""<approaches>
Add them.
</approaches>

<complete>
3 | shop/till.py | a price below 0 is added, too
2 | shop/names.py | `polite` says what is due
- 3 | - | fractions are kept
none of them matters
</complete>

{SHARP_SCRIPT}"""
CASES = (
    "<complete>\n3 | tests/test_till.py | a test\n</complete>\n\n"
    "<script>\nfrom shop.till import total\n"
    "print('case: total([0.5]) ->', total([0.5]))\n</script>"
)
INFORMED = "editing/3"
FLOORING_EDIT = edit("        result -= price", "        result += int(price)")


async def test_a_checklist_written_before_the_edits_tells_an_incomplete_one(shop: Shop) -> None:
    model = ScriptedModel(samples(ABSOLUTE_EDIT, GOOD_EDIT, approaches=[CHECKED]))
    result = await shop.solver(model, samples=2, informed=0).solve(ISSUE)
    assert isinstance(result, Selection)
    votes = result.evidence.votes
    ends = [run.exit_code for run in (row[-1] for row in (votes.base, *votes.runs))]
    assert ends == [2, 2, 0]
    assert result.candidate.sample == 1
    assert [one.covers for one in result.evidence.standings] == [3, 3]
    assert votes.checklist == len(votes.tests) - 1
    assert "script 2 (checklist)" in render_vote_table(votes, result.candidate)
    told = render_scripts(votes, result.candidate, result.evidence.order, 4000)
    assert "Script 2, which tries what was said of a complete fix" in told
    assert "It may ask for more than the issue" in told


async def test_whoever_checks_others_and_whoever_compares_see_the_checklist(shop: Shop) -> None:
    edits = (GOOD_EDIT, LONGER_GOOD_EDIT, GOOD_EDIT, "It is right.\n\n<same>1</same>")
    model = ScriptedModel(samples(*edits, approaches=[CHECKED]))
    await shop.solver(model, samples=4).solve(ISSUE)
    row = "2 | shop/names.py | `polite` says what is due"
    assert row in str(model.conversations[INFORMED])
    assert "- | fractions are kept" in str(model.conversations[INFORMED])
    assert row not in str(model.conversations["editing/1"])
    assert row in str(model.conversations["selecting"])


async def test_edits_that_print_other_cases_do_not_behave_alike(shop: Shop) -> None:
    model = ScriptedModel(samples(GOOD_EDIT, FLOORING_EDIT, approaches=[CASES]))
    result = await shop.solver(model, samples=2, informed=0).solve(ISSUE)
    assert isinstance(result, Selection)
    assert [one.behaves_as for one in result.evidence.standings] == [0, 1]
    shown = str(model.conversations["selecting"])
    assert "case: total([0.5]) -> 0\\n" in shown
    (note,) = [note for note in result.evidence.notes if "complete fix" in note]
    assert "tests/test_till.py" in note
