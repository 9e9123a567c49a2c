"""What an editing machine hears about its edit."""

from pathlib import Path

from pipeline.data.types import Selection
from pipeline.generation.editing import EditingState
from pipeline.state import Phase
from pipeline.store import DirStore
from sandbox.frozen import replace
from tests.support.data.solver_shop import (
    APPROVE,
    BREAKING_EDIT,
    FILES,
    GOOD_EDIT,
    ISSUE,
    SHARP_SCRIPT,
    Shop,
    edit,
    open_shop,
    simple,
)
from tests.support.fakes import ScriptedModel, asked_for

BAD_SYNTAX = edit("        result -= price", "        result += price)")


def said(model: ScriptedModel) -> list[str]:
    return [m.text for m in model.conversations["editing/0"] if m.role == "user"]


async def state_of(shop: Shop) -> EditingState:
    state = await DirStore(shop.folder / "store").load("editing/0", EditingState)
    assert state is not None
    return state


def early(shop: Shop) -> list[tuple[str, ...]]:
    """The diffs of the runs of near tests."""
    asked = [(asked_for(what), diffs) for what, diffs in shop.sandbox.runs]
    near = ("tests/test_till.py",)
    return [diffs for one, diffs in asked if one and one[1] == near]


def scripts_run(shop: Shop, words: str) -> int:
    return sum(any(words in diff for diff in diffs) for _, diffs in shop.sandbox.runs)


async def test_an_edit_that_does_not_parse_is_sent_back_without_any_execution(shop: Shop) -> None:
    model = ScriptedModel(simple(BAD_SYNTAX, GOOD_EDIT, APPROVE))
    assert isinstance(await shop.solver(model).solve(ISSUE), Selection)
    assert "shop/till.py, line 4: " in said(model)[2]
    assert "result += price)" in said(model)[2]
    assert scripts_run(shop, "price)\n") == 0


async def test_a_model_that_insists_on_its_syntax_is_believed(shop: Shop) -> None:
    model = ScriptedModel(simple(BAD_SYNTAX, BAD_SYNTAX, GOOD_EDIT, APPROVE))
    assert isinstance(await shop.solver(model).solve(ISSUE), Selection)
    assert "SyntaxError" in said(model)[3]


async def test_a_file_that_never_parsed_is_not_held_against_an_edit(tmp_path: Path) -> None:
    shop = await open_shop(tmp_path, {**FILES, "shop/old.py": "print 'py2'\n"})
    both = GOOD_EDIT.removesuffix("</edit>") + (
        "shop/old.py\n<<<<<<< SEARCH\nprint 'py2'\n=======\nprint 'two'\n>>>>>>> REPLACE\n</edit>"
    )
    model = ScriptedModel(simple(both, APPROVE))
    assert isinstance(await shop.solver(model).solve(ISSUE), Selection)
    assert len(said(model)) == 3


async def test_the_edit_is_shown_as_a_diff_with_both_runs(shop: Shop) -> None:
    model = ScriptedModel(simple(GOOD_EDIT, APPROVE))
    await shop.solver(model).solve(ISSUE)
    report = said(model)[2]
    assert "-        result -= price\n+        result += price\n" in report
    assert "Exit code 2 after" in report
    assert "Exit code 0 after" in report
    assert "These tests" not in report


async def test_tests_of_the_repository_that_the_edit_breaks_are_reported(shop: Shop) -> None:
    model = ScriptedModel(simple(BREAKING_EDIT, GOOD_EDIT, APPROVE))
    assert isinstance(await shop.solver(model).solve(ISSUE), Selection)
    report = said(model)[2]
    assert "<output>\ntests/test_till.py::test_count\n</output>" in report
    assert "assert 7 == 2" in report
    assert (await state_of(shop)).broken == [("tests/test_till.py::test_count",), ()]


async def test_the_unedited_code_is_tested_once_and_again_only_when_tests_look_broken(
    shop: Shop,
) -> None:
    model = ScriptedModel(simple(BREAKING_EDIT, GOOD_EDIT, APPROVE))
    await shop.solver(model).solve(ISSUE)
    assert [bool(diffs) for diffs in early(shop)].count(False) == 2


async def test_the_early_tests_can_be_turned_off(shop: Shop) -> None:
    model = ScriptedModel(simple(BREAKING_EDIT, GOOD_EDIT, APPROVE))
    await shop.solver(model, nearby_seconds=0).solve(ISSUE)
    assert "These tests" not in said(model)[2]
    assert not early(shop)


async def test_the_early_tests_are_run_by_the_configured_command(shop: Shop) -> None:
    model = ScriptedModel(simple(BREAKING_EDIT, GOOD_EDIT, APPROVE))
    command = ("python", "-m", "pytest", "-q", "--strict-markers")
    await shop.solver(model, test_command=command).solve(ISSUE)
    asked = [asked_for(what) for what, _ in shop.sandbox.runs]
    parts = [one for one in asked if one and one[1]]
    assert parts
    assert all("--strict-markers" in argv for argv, _ in parts)
    assert (await state_of(shop)).broken[0] == ("tests/test_till.py::test_count",)


async def test_a_configured_command_that_cannot_run_a_part_gives_no_result_early(
    shop: Shop,
) -> None:
    model = ScriptedModel(simple(BREAKING_EDIT, GOOD_EDIT, APPROVE))
    await shop.solver(model, test_command=("sh", "-c", "exit 0")).solve(ISSUE)
    assert not early(shop)
    assert (await state_of(shop)).broken == [(), ()]


async def test_a_renamed_file_reaches_the_candidate(shop: Shop) -> None:
    rename = GOOD_EDIT.replace("<edit>\n", "<edit>\nshop/names.py\n<<<<<<< RENAME shop/words.py\n")
    selection = await shop.solver(ScriptedModel(simple(rename, APPROVE))).solve(ISSUE)
    assert isinstance(selection, Selection)
    assert "+++ b/shop/words.py" in selection.candidate.patch.diff


async def test_a_script_beside_the_first_edit_is_run_with_it(shop: Shop) -> None:
    """It was thrown away without a word."""
    model = ScriptedModel(simple(f"{SHARP_SCRIPT}\n\n{GOOD_EDIT}", APPROVE))
    assert isinstance(await shop.solver(model).solve(ISSUE), Selection)
    state = await state_of(shop)
    assert "total([0.5]) == 0.5" in state.scripts[-1]
    assert len(state.scripts) == len(state.base) == 2
    assert state.edited[-1].passed


async def test_an_edit_a_script_and_an_approval_take_one_call(shop: Shop) -> None:
    """The approval was dropped without a word."""
    model = ScriptedModel(simple(f"{GOOD_EDIT}\n\n{SHARP_SCRIPT}\n\n{APPROVE}"))
    assert isinstance(await shop.solver(model).solve(ISSUE), Selection)
    state = await state_of(shop)
    assert (state.phase, len(state.attempts)) == (Phase.APPROVED, 1)


async def test_an_approval_beside_an_edit_saves_the_call_that_would_ask_for_it(shop: Shop) -> None:
    model = ScriptedModel(simple(f"{GOOD_EDIT}\n\n{APPROVE}"))
    assert isinstance(await shop.solver(model).solve(ISSUE), Selection)
    state = await state_of(shop)
    assert state.phase is Phase.APPROVED
    assert len(state.attempts) == 1


async def test_an_approval_beside_an_edit_that_breaks_a_test_does_not_count(shop: Shop) -> None:
    both = f"{BREAKING_EDIT}\n\n{APPROVE}"
    model = ScriptedModel(simple(both, GOOD_EDIT, APPROVE))
    assert isinstance(await shop.solver(model).solve(ISSUE), Selection)
    assert "test" in said(model)[2]


async def test_a_number_of_an_issue_that_nobody_gave_is_told_once(shop: Shop) -> None:
    """Seen with pytest's issue 7236, of which a test said #7215."""
    numbered = GOOD_EDIT.replace("+= price", "+= price  # See #7215 and #41.")
    model = ScriptedModel(simple(f"{numbered}\n\n{APPROVE}", APPROVE))
    issue = replace(ISSUE, body=f"{ISSUE.body} As in issue 41.")
    assert isinstance(await shop.solver(model).solve(issue), Selection)
    assert "#7215" in said(model)[2].partition("</diff>")[2]
    assert "#41" not in said(model)[2].partition("</diff>")[2]
    assert len(said(model)) == 3  # who insists is believed
    assert (await state_of(shop)).made_up == ("#7215",)


async def test_an_entry_of_the_changelog_that_was_not_wanted_is_told_once(tmp_path: Path) -> None:
    shop = await open_shop(tmp_path, {**FILES, "changelog/12.bugfix.rst": "It subtracts.\n"})
    entry = (
        "changelog/+sums.bugfix.rst\n<<<<<<< SEARCH\n=======\nIt adds.\n>>>>>>> REPLACE\n</edit>"
    )
    noted = GOOD_EDIT.removesuffix("</edit>") + entry
    model = ScriptedModel(simple(f"{noted}\n\n{APPROVE}", APPROVE))
    assert isinstance(await shop.solver(model).solve(ISSUE), Selection)
    assert "changelog/+sums.bugfix.rst" in said(model)[2].partition("</diff>")[2]
    assert len(said(model)) == 3
    assert (await state_of(shop)).made_up == ("changelog/+sums.bugfix.rst",)


async def test_an_approval_beside_an_edit_whose_own_test_fails_does_not_count(shop: Shop) -> None:
    own = (
        "tests/test_till.py\n<<<<<<< SEARCH\ndef test_total_of_nothing():\n=======\n"
        "def test_total_adds():\n    assert total([1, 2]) == 4\n\n\ndef test_total_of_nothing():\n"
        ">>>>>>> REPLACE\n</edit>"
    )
    model = ScriptedModel(
        simple(f"{GOOD_EDIT.removesuffix('</edit>')}{own}\n<approve/>", GOOD_EDIT, APPROVE)
    )
    assert isinstance(await shop.solver(model).solve(ISSUE), Selection)
    assert "tests/test_till.py::test_total_adds" in said(model)[2]
    assert "assert 3 == 4" in said(model)[2]
