"""Before any edit is written: what is fixed already, and what is no fault of this code."""

import dataclasses
from collections.abc import Sequence

import pytest

from bot.comments.pull_request import pull_body
from pipeline.codebase.commit import Codebase
from pipeline.codebase.git import git
from pipeline.data.progress import StageBegan
from pipeline.data.types import NoFix, Selection
from pipeline.edits.external import LARGEST
from pipeline.workflows.abstain import Lineage
from tests.support.data.publishing import a_run, proven
from tests.support.data.repositories import add_commit
from tests.support.data.solver_shop import (
    APPROVE,
    COMMON,
    FILES,
    GOOD_EDIT,
    GOOD_SCRIPT,
    ISSUE,
    PASSING_SCRIPT,
    SHARP_SCRIPT,
    Shop,
    sample,
    script,
)
from tests.support.fakes import Answer, ScriptedModel, SubprocessSandbox

TILL = "shop/till.py"
FIXED = FILES[TILL].replace("-= price", "+= price")
NOW = "The code does what the report asks for.\n\n<fixed/>"
QUESTION = "<no_issue>\nquestion\nCall total() with a list: see the README.\n</no_issue>"


async def with_history(shop: Shop, *tills: str) -> tuple[Shop, list[str]]:
    """The shop after further commits, each with one more text of `shop/till.py`; their names."""
    git_dir = shop.codebase.git_dir
    names = [
        await add_commit(git_dir, {TILL: text, "notes.txt": f"{number}\n"}, f"Change {number}")
        for number, text in enumerate(tills)
    ]
    codebase = await Codebase.open(git_dir, names[-1])
    sandbox = SubprocessSandbox(await codebase.build_tree())
    return dataclasses.replace(shop, codebase=codebase, sandbox=sandbox), names


def writing(*first: Sequence[Answer]) -> ScriptedModel:
    answers = {f"testing/{number}": list(said) for number, said in enumerate(first)}
    return ScriptedModel({**COMMON, **answers})


async def test_the_first_scripts_are_announced_when_they_are_begun(shop: Shop) -> None:
    scripts = [(GOOD_SCRIPT, NOW), (SHARP_SCRIPT, NOW)]
    shop, _ = await with_history(shop, FILES[TILL], FIXED)
    await shop.solver(writing(*scripts), samples=2).solve(ISSUE)
    first = shop.events[0]
    assert isinstance(first, StageBegan)
    assert (first.stage, "2 scripts" in first.doing) == ("context", True)
    shop.events.clear()
    await shop.solver(writing(), samples=2).solve(ISSUE)
    assert shop.events == [], "what is written already is not announced again"


async def test_a_fix_is_found_by_bisecting_and_nothing_but_tests_is_paid(shop: Shop) -> None:
    shop, names = await with_history(shop, FILES[TILL], *[FIXED] * 6)
    scripts = [(GOOD_SCRIPT, NOW), (SHARP_SCRIPT, NOW), (GOOD_SCRIPT, NOW)]
    model = writing(*scripts)
    result = await shop.solver(model, samples=3).solve(ISSUE)
    assert isinstance(result, NoFix)
    assert result.reason == "already fixed"
    assert result.fixed_since is not None
    assert (result.fixed_since.commit, result.fixed_since.subject) == (names[1], "Change 1")
    assert "3 of 3 scripts" in result.details[0]
    assert "5 commits ago" in result.details[1]
    assert {call.split("/")[0] for call, _ in model.asked} == {"testing"}


async def test_many_changes_of_large_files_do_not_hide_the_commit(shop: Shop) -> None:
    git_dir = shop.codebase.git_dir
    lines = "# filler\n" * (LARGEST // 18)  # before and after together, more than may be compared
    for number, till in enumerate((FILES[TILL], FILES[TILL], FIXED, FIXED)):
        await add_commit(git_dir, {TILL: till, "large.py": f"x = {number}\n{lines}"}, "Change")
    head = (await git(git_dir, "rev-parse", "HEAD")).decode().strip()
    codebase = await Codebase.open(git_dir, head)
    sandbox = SubprocessSandbox(await codebase.build_tree())
    lineage = Lineage(dataclasses.replace(shop, codebase=codebase, sandbox=sandbox).workspace())
    await lineage.read()
    text = GOOD_SCRIPT.partition("<script>\n")[2].partition("</script>")[0]
    assert await lineage.find_fix(text) == 1


async def test_commits_on_which_the_script_does_not_run_are_passed_over(shop: Shop) -> None:
    buggy, broken = FILES[TILL], "def total(:\n"
    text = GOOD_SCRIPT.partition("<script>\n")[2].partition("</script>")[0]
    shop, _ = await with_history(shop, buggy, buggy, broken, buggy, *[FIXED] * 5)
    lineage = Lineage(shop.workspace())
    await lineage.read()
    assert await lineage.find_fix(text) == 4
    assert await lineage.confirms(text, 4)
    # Where its parent cannot tell, the commit is not known.
    shop, _ = await with_history(shop, buggy, broken, FIXED)
    lineage = Lineage(shop.workspace())
    await lineage.read()
    assert await lineage.find_fix(text) is None


@pytest.mark.parametrize("said", [PASSING_SCRIPT, script("total([]) == 0")])
async def test_scripts_that_always_passed_show_no_fix(shop: Shop, said: str) -> None:
    shop, _ = await with_history(shop, FILES[TILL], FILES[TILL])
    model = writing((said, NOW), (said, NOW))
    model = dataclasses.replace(
        model, answers={**model.answers, "editing/0": [GOOD_EDIT, APPROVE], "editing/1": [APPROVE]}
    )
    result = await shop.solver(model, samples=2).solve(ISSUE)
    assert not isinstance(result, NoFix) or result.reason != "already fixed"


ALL_PASS = {"testing/0": [PASSING_SCRIPT, NOW], "testing/1": [PASSING_SCRIPT, NOW]}


def told(model: ScriptedModel, number: int) -> str:
    return str(model.conversations[f"editing/{number}"])


async def test_where_no_script_sees_the_issue_samples_may_say_so_and_nothing_is_made_up(
    shop: Shop,
) -> None:
    answers = {**COMMON, **ALL_PASS, "editing/0": [NOW], "editing/1": [GOOD_EDIT, NOW]}
    model = ScriptedModel(answers)
    result = await shop.solver(model, samples=2).solve(ISSUE)
    assert isinstance(result, NoFix)
    assert (result.reason, "All 2 scripts" in result.details[0]) == ("not reproduced", True)
    assert "True" in result.script
    assert "All 2 scripts" in told(model, 0)


async def test_a_sample_may_not_call_fixed_what_its_script_reports(shop: Shop) -> None:
    answers = {**COMMON, **ALL_PASS, "editing/0": [NOW]}
    answers["editing/1"] = [GOOD_SCRIPT + GOOD_EDIT, NOW, APPROVE]
    model = ScriptedModel(answers)
    result = await shop.solver(model, samples=2).solve(ISSUE)
    assert "something is left" in told(model, 1)
    assert isinstance(result, Selection)
    assert result.evidence.unseen == 2
    assert result.confidence <= 0.5
    body = pull_body(a_run(), result, ())
    assert body.startswith("**What the issue describes does not happen here")
    assert pull_body(a_run(), proven(result, unseen=0), ()).startswith("- **Before:**")


async def test_one_script_that_reports_the_issue_is_enough_to_work_on_it(shop: Shop) -> None:
    answers = {**COMMON, **sample(0, GOOD_EDIT), **sample(1, GOOD_EDIT)}
    answers["testing/1"] = [PASSING_SCRIPT, NOW]
    result = await shop.solver(ScriptedModel(answers), samples=2).solve(ISSUE)
    assert isinstance(result, Selection)


async def test_a_question_gets_its_answer_when_most_samples_say_so(shop: Shop) -> None:
    model = writing((QUESTION,), (QUESTION,), (PASSING_SCRIPT, NOW))
    result = await shop.solver(model, samples=3).solve(ISSUE)
    assert isinstance(result, NoFix)
    assert (result.reason, result.details) == (
        "question",
        ("Call total() with a list: see the README.",),
    )
    assert {call.split("/")[0] for call, _ in model.asked} == {"testing"}


@pytest.mark.parametrize(
    ("word", "reason"), [("`wish`", "unclear wish"), ("Elsewhere.", "not this repository")]
)
async def test_other_reports_that_no_script_can_show_have_answers_of_their_own(
    shop: Shop, word: str, reason: str
) -> None:
    said = f"<no_issue>\n{word}\nSay more.\n</no_issue>"
    model = writing(("<no_issue>\nnonsense\n</no_issue>", said), (said,))
    result = await shop.solver(model, samples=2).solve(ISSUE)
    assert isinstance(result, NoFix)
    assert result.reason == reason
    assert "<no_issue>" in model.conversations["testing/0"][-1].text


async def test_a_sample_that_alone_sees_nothing_to_fix_writes_an_edit_all_the_same(
    shop: Shop,
) -> None:
    answers = {**COMMON, **sample(0, GOOD_EDIT), **sample(1, GOOD_EDIT)}
    answers["testing/1"] = [QUESTION, *answers["testing/1"]]
    model = ScriptedModel(answers)
    result = await shop.solver(model, samples=2).solve(ISSUE)
    assert isinstance(result, Selection)
    assert len(result.evidence.votes.candidates) == 2
