import sys
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from bot.data.progress import Progress, ProgressTracker
from pipeline.context.files.cache import cache_path
from pipeline.data.options import Options
from pipeline.data.progress import StageBegan
from pipeline.data.types import NoFix, Selection
from pipeline.models.base import ContextTooLong, ModelRefused, ModelUnavailable, Price
from pipeline.run_errors import BudgetSpent
from pipeline.store import DirStore, Store
from pipeline.workflows.outcome import OUTCOME_KEY
from tests.support.data.solver_shop import (
    ABSOLUTE_EDIT,
    APPROVE,
    BREAKING_EDIT,
    BROKEN_SCRIPT,
    COMMON,
    FILES,
    GOOD_EDIT,
    ISSUE,
    LONGER_GOOD_EDIT,
    PASSING_SCRIPT,
    SHARP_SCRIPT,
    TEST_FILE,
    WEAK_SCRIPT,
    WRONG_EDIT,
    Shop,
    edit,
    open_shop,
    sample,
    script,
    simple,
)
from tests.support.fakes import (
    ENVIRONMENT,
    Answer,
    CountingStore,
    DyingStore,
    Killed,
    ScriptedModel,
)

COMMENTED_EDIT = GOOD_EDIT.replace("+= price", "+= price  # Every price counts.")
FOUR_SAMPLES: dict[str, list[Answer]] = {
    **COMMON,
    **sample(0, ABSOLUTE_EDIT, APPROVE),
    **sample(1, "Only words.", COMMENTED_EDIT, APPROVE, test=WEAK_SCRIPT),
    **sample(2, LONGER_GOOD_EDIT, APPROVE),
    **sample(3, WRONG_EDIT, edit("not there", "x"), APPROVE),
    "selecting": [SHARP_SCRIPT, "<choice>7</choice>", "It is the second.\n<choice>2</choice>"],
}


async def solved(
    shop: Shop,
    model: ScriptedModel,
    *,
    store: Store | None = None,
    scout: bool = True,
    **options: Any,
) -> Selection:
    result = await shop.solver(model, store=store, scout=scout, **options).solve(ISSUE)
    assert isinstance(result, Selection), result
    return result


async def unsolved(shop: Shop, model: ScriptedModel, *, scout: bool = True) -> NoFix:
    result = await shop.solver(model, scout=scout).solve(ISSUE)
    assert isinstance(result, NoFix), result
    return result


async def test_four_samples_end_in_the_edit_that_the_selection_machine_chose(shop: Shop) -> None:
    model = ScriptedModel(FOUR_SAMPLES)
    selection = await solved(shop, model, samples=4, selection="machine")
    votes = selection.evidence.votes
    assert selection.decided_by == "model"
    assert selection.evidence.selection_rounds == 1
    assert selection.evidence.finalists == (0, 1, 2)
    assert selection.candidate == votes.candidates[1]
    assert "+        result += price" in selection.candidate.patch.diff
    assert [votes.votes(c) for c in range(4)] == [2, 2, 2, 0]
    assert 0.5 < selection.confidence < 1
    others = selection.evidence.order[1:]
    assert [selection.evidence.votes.candidates[c].sample for c in others] == [0, 2, 3]


async def test_edits_are_judged_in_the_form_that_the_repository_gives_its_files(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(ENVIRONMENT, "PATH", f"{Path(sys.executable).parent}:/usr/bin:/bin")
    shop = await open_shop(tmp_path, {**FILES, "pyproject.toml": "[tool.ruff.format]\n"})
    ugly = GOOD_EDIT.replace("+= price", "+=    price")
    wrong = WRONG_EDIT.replace("result = 1", "result  =  1")
    two = {
        **COMMON,
        **sample(0, ugly, APPROVE),
        **sample(1, wrong, edit("not there", "x"), APPROVE),
    }
    two["selecting"] = [SHARP_SCRIPT, "<choice>1</choice>"]
    chosen = await solved(shop, ScriptedModel(two), samples=2, finalists=1)
    assert "+        result += price\n" in chosen.candidate.patch.diff
    assert (standings := chosen.evidence.standings)
    # What ran near an edit before it was formatted says as much of it as of the one that won.
    assert all(one.broken is not None or one.near is not None for one in standings)


async def test_the_evidence_holds_red_and_green_runs_and_the_suite(shop: Shop) -> None:
    selection = await solved(shop, ScriptedModel(simple(GOOD_EDIT, APPROVE)))
    proof = selection.evidence.reproduction
    assert proof.path == "tests/test_total_subtracts.py"
    assert (proof.before.exit_code, proof.after.exit_code) == (1, 0)
    assert "assert -3 == 3" in proof.before.output
    assert selection.evidence.suite is not None
    assert len(selection.evidence.suite.before.passed) == 2
    assert selection.evidence.suite.broken == ()
    assert selection.evidence.title == "Add prices up in total()"
    assert selection.evidence.context.scanned == 4
    shown = [file.path for file in selection.evidence.context.files]
    assert shown == ["shop/till.py", "shop/names.py"]  # the scout could not judge the last
    assert selection.decided_by == "only one"


async def test_solving_again_after_the_end_asks_no_model_and_runs_nothing(shop: Shop) -> None:
    first = await solved(shop, ScriptedModel(FOUR_SAMPLES), samples=4)
    model, runs = ScriptedModel({}), len(shop.sandbox.runs)
    assert await solved(shop, model, samples=4) == first
    assert model.asked == []
    assert len(shop.sandbox.runs) == runs


async def test_a_worker_killed_before_any_checkpoint_repeats_at_most_one_call(
    shop: Shop, tmp_path: Path
) -> None:
    answers = simple(WRONG_EDIT, GOOD_EDIT, APPROVE)
    counting, calm = CountingStore(tmp_path / "calm"), ScriptedModel(answers)
    expected = await solved(shop, calm, store=counting)
    assert len(counting.saved) > 15
    for dies_at in range(1, len(counting.saved) + 1):
        # Verdicts of earlier runs, which the mirror keeps, would be saved no more.
        cache_path(shop.codebase.git_dir).unlink()
        folder, model = tmp_path / f"dies-{dies_at}", ScriptedModel(answers)
        with pytest.raises(Killed):
            await solved(shop, model, store=DyingStore(folder, dies_at))
        assert await solved(shop, model, store=DirStore(folder)) == expected
        # Relevance asks several files at once; a call in flight is lost with the process.
        repeated = len(model.asked) - len(calm.asked)
        at_once = 8 if counting.saved[dies_at - 1].startswith("context/relevance/") else 1
        assert repeated <= at_once, counting.saved[dies_at - 1]


async def test_a_worker_killed_among_four_samples_repeats_a_call_for_each_at_most(
    shop: Shop, tmp_path: Path
) -> None:
    calm, counting = ScriptedModel(FOUR_SAMPLES), CountingStore(tmp_path / "calm")
    expected = await solved(shop, calm, samples=4, store=counting)
    for dies_at in range(5, len(counting.saved), 5):
        folder, model = tmp_path / f"dies-{dies_at}", ScriptedModel(FOUR_SAMPLES)
        with suppress(Killed):  # the last saves depend on who was first
            await solved(shop, model, samples=4, store=DyingStore(folder, dies_at))
        assert await solved(shop, model, samples=4, store=DirStore(folder)) == expected
        assert len(model.asked) - len(calm.asked) <= 8


async def test_identical_edits_and_tests_are_run_once(shop: Shop) -> None:
    answers = {**simple(GOOD_EDIT, APPROVE), **sample(1, GOOD_EDIT, APPROVE)}
    selection = await solved(shop, ScriptedModel(answers), samples=2)
    assert len(selection.evidence.votes.tests) == 1
    assert len(selection.evidence.votes.candidates) == 2
    assert selection.decided_by == "only one"


async def test_the_first_editing_question_is_answered_before_the_others_are_asked(
    shop: Shop,
) -> None:
    model = ScriptedModel(FOUR_SAMPLES)
    await solved(shop, model, samples=4)
    first = next(i for i, (call, _) in enumerate(model.asked) if call.startswith("editing/"))
    shared = {tuple(model.conversations[f"editing/{n}"][:1]) for n in range(4)}
    assert len(shared) == 1
    assert model.asked[first][1] == 0


async def test_without_a_decision_of_the_machine_the_votes_decide(shop: Shop) -> None:
    answers = {**FOUR_SAMPLES, "selecting": [SHARP_SCRIPT, "Hard to say."]}
    selection = await solved(
        shop, ScriptedModel(answers), samples=4, selection_attempts=3, selection="machine"
    )
    assert selection.decided_by == "votes"
    assert selection.candidate == selection.evidence.votes.candidates[0]


async def test_an_edit_that_breaks_the_suite_yields_to_the_next_finalist(shop: Shop) -> None:
    answers = {**simple(BREAKING_EDIT, APPROVE), **sample(1, LONGER_GOOD_EDIT, APPROVE)}
    selection = await solved(shop, ScriptedModel(answers), samples=2)
    assert selection.decided_by == "only one"
    stood = {s.broken for s in selection.evidence.standings}
    assert stood == {("tests/test_till.py::test_count",), ()}
    assert "return sum(prices)" in selection.candidate.patch.diff


async def test_edits_that_all_break_the_suite_are_no_fix(shop: Shop) -> None:
    no = await unsolved(shop, ScriptedModel(simple(BREAKING_EDIT, APPROVE)))
    assert no.reason == "edits break tests"
    assert "tests/test_till.py::test_count" in no.details[0]


async def test_an_edit_that_passes_no_test_is_no_fix(shop: Shop) -> None:
    no = await unsolved(shop, ScriptedModel(simple(WRONG_EDIT, APPROVE)))
    assert no.reason == "no edit passes its test"
    assert no.details


async def test_a_script_that_never_reports_the_issue_is_no_reproduction(shop: Shop) -> None:
    answers = {**COMMON, **sample(0, GOOD_EDIT, APPROVE, test=PASSING_SCRIPT)}
    model = ScriptedModel(answers)
    assert (await unsolved(shop, model)).reason == "no reproduction"
    assert "cannot be approved" in str(model.conversations["testing/0"])


async def test_an_editing_machine_may_mend_a_broken_script(shop: Shop) -> None:
    new = script("total([1]) == 1")
    answers = {**COMMON, **sample(0, GOOD_EDIT, new, APPROVE, test=BROKEN_SCRIPT)}
    selection = await solved(shop, ScriptedModel(answers))
    assert selection.candidate.test is not None
    assert "total([1]) == 1" in selection.candidate.test.text


async def test_nonsense_to_the_end_of_the_attempts_is_no_reproduction(shop: Shop) -> None:
    answers: dict[str, list[Answer]] = {**COMMON, "testing/0": ["Hm."]}
    model = ScriptedModel(answers)
    assert (await unsolved(shop, model)).reason == "no reproduction"
    assert [turn for call, turn in model.asked if call == "testing/0"] == [0, 1, 2, 3]


async def test_edits_that_never_apply_are_no_edit(shop: Shop) -> None:
    hostile = "<edit>\n.git/hooks/pre-commit\n<<<<<<< SEARCH\n=======\nx\n>>>>>>> REPLACE\n</edit>"
    outside = "<edit>\n../x\n<<<<<<< SEARCH\n=======\nx\n>>>>>>> REPLACE\n</edit>"
    workflow = (
        "<edit>\n.github/workflows/x.yml\n<<<<<<< SEARCH\n=======\nx\n>>>>>>> REPLACE\n</edit>"
    )
    model = ScriptedModel(simple(hostile, outside, workflow, "<edit>\n</edit>"))
    assert (await unsolved(shop, model)).reason == "no edit"
    said = "\n".join(m.text for m in model.conversations["editing/0"])
    assert "git's own" in said
    assert "no `..`" in said
    assert "is a workflow" in said


async def test_out_of_attempts_the_last_edit_still_counts(shop: Shop) -> None:
    selection = await solved(shop, ScriptedModel(simple(WRONG_EDIT, GOOD_EDIT, "never approved")))
    assert "+        result += price" in selection.candidate.patch.diff


@pytest.mark.parametrize("end", [ContextTooLong("long"), ModelRefused("no")])
async def test_when_the_conversation_cannot_go_on_the_last_edit_still_counts(
    shop: Shop, end: Exception
) -> None:
    selection = await solved(shop, ScriptedModel(simple(GOOD_EDIT, end)))
    assert "+        result += price" in selection.candidate.patch.diff


@pytest.mark.parametrize("stage", ["relevance", "ranking/0", "testing/0", "editing/0"])
async def test_a_budget_spent_early_is_out_of_budget(shop: Shop, stage: str) -> None:
    answers = {**simple(GOOD_EDIT, APPROVE), stage: [BudgetSpent(1.0, 1.0)]}
    assert (await unsolved(shop, ScriptedModel(answers))).reason == "out of budget"


async def test_a_budget_spent_by_one_sample_leaves_the_others_their_chance(shop: Shop) -> None:
    answers = {**simple(GOOD_EDIT, APPROVE), **sample(1, BudgetSpent(1.0, 1.0))}
    assert (await solved(shop, ScriptedModel(answers), samples=2)).candidate.sample == 0


async def test_a_model_that_is_away_is_the_callers_to_wait_for(shop: Shop) -> None:
    answers = {**simple(GOOD_EDIT, APPROVE), "editing/0": [ModelUnavailable("away")]}
    with pytest.raises(ModelUnavailable):
        await shop.solver(ScriptedModel(answers)).solve(ISSUE)


async def test_without_a_scout_the_words_of_the_issue_find_the_files(shop: Shop) -> None:
    model = ScriptedModel(simple(GOOD_EDIT, APPROVE))
    selection = await solved(shop, model, scout=False)
    assert "relevance" not in {call for call, _ in model.asked}
    assert selection.evidence.context.files[0].path == "shop/till.py"


async def test_malformed_rankings_fall_back_to_the_scouts_order(shop: Shop) -> None:
    answers = simple(GOOD_EDIT, APPROVE)
    answers["ranking/0"] = ["<ranking>\nnothing/known.py\n</ranking>"]
    selection = await solved(shop, ScriptedModel(answers))
    assert [f.path for f in selection.evidence.context.files] == ["shop/till.py", "shop/names.py"]


async def test_a_reproduction_that_is_wrong_is_sent_back_until_it_is_right(shop: Shop) -> None:
    passes = TEST_FILE.replace("== 3", "!= 99")
    fails = TEST_FILE.replace("== 3", "== 99")
    empty = TEST_FILE.replace("def test_total_adds", "def helper")
    model = ScriptedModel(
        simple(GOOD_EDIT, APPROVE, reproduction=[passes, fails, empty, TEST_FILE])
    )
    await solved(shop, model)
    assert [call for call, _ in model.asked].count("reproduction") == 4


async def test_the_reproduction_test_keeps_out_of_what_must_not_be_touched(shop: Shop) -> None:
    model = ScriptedModel(simple(GOOD_EDIT, APPROVE))
    selection = await solved(shop, model, never_touch=("tests/**", "test"))
    assert selection.evidence.reproduction.path == "test_total_subtracts.py"


async def test_an_import_that_needs_the_edit_is_sent_back_and_taken_in_the_end(shop: Shop) -> None:
    adds = "<edit>\nshop/extra.py\n<<<<<<< SEARCH\n=======\nx = 1\n>>>>>>> REPLACE\n</edit>"
    both = GOOD_EDIT.removesuffix("</edit>") + adds.removeprefix("<edit>\n")
    test = TEST_FILE.replace("import total", "import total\nimport shop.extra")
    model = ScriptedModel(simple(both, APPROVE, reproduction=[test]))
    selection = await solved(shop, model)
    assert selection.evidence.reproduction.before.exit_code == 2
    assert sum(call == "reproduction" for call, _ in model.asked) == 3


async def test_a_service_that_fails_one_sample_costs_the_others_nothing(
    shop: Shop, tmp_path: Path
) -> None:
    both = {**COMMON, **sample(0, GOOD_EDIT, APPROVE), **sample(1, GOOD_EDIT, APPROVE)}
    store = DirStore(tmp_path / "kept")
    failing = ScriptedModel({**both, "testing/0": [ModelUnavailable("away")]})
    with pytest.raises(ModelUnavailable):
        await solved(shop, failing, store=store, samples=2)
    model = ScriptedModel(both)
    await solved(shop, model, store=store, samples=2)
    assert {call for call, _ in failing.asked} >= {"testing/1", "editing/1"}
    assert not {call for call, _ in model.asked} & {"testing/1", "editing/1"}


async def test_a_test_command_that_names_no_test_still_shows_which_passed(shop: Shop) -> None:
    model = ScriptedModel(simple(GOOD_EDIT, APPROVE))
    command = ("python", "-m", "pytest", "-q")
    selection = await solved(shop, model, test_command=command)
    assert selection.evidence.suite is not None
    assert len(selection.evidence.suite.before.passed) == 2


async def test_a_unittest_repository_gets_a_unittest_file(tmp_path: Path) -> None:
    case = (
        "import unittest\n\nfrom shop.till import count\n\n\nclass CountTest(unittest.TestCase):\n"
        "    def test_count(self):\n        self.assertEqual(count([1]), 1)\n"
    )
    files = {**FILES, "tests/test_till.py": case, "tests/__init__.py": "", "pyproject.toml": ""}
    shop = await open_shop(tmp_path, files)
    test = TEST_FILE.replace(
        "def test_total_adds():\n    assert total([1, 2]) == 3",
        "import unittest\nclass T(unittest.TestCase):\n"
        "    def test_it(self):\n        self.assertEqual(total([1, 2]), 3)",
    )
    selection = await solved(shop, ScriptedModel(simple(GOOD_EDIT, APPROVE, reproduction=[test])))
    assert "unittest" in selection.evidence.reproduction.command
    assert selection.evidence.suite is not None
    assert selection.evidence.suite.after.passed == ("tests.test_till.CountTest.test_count",)


async def test_an_empty_repository_is_said_to_be_empty(tmp_path: Path) -> None:
    shop = await open_shop(tmp_path, {})
    assert (await unsolved(shop, ScriptedModel({}))).reason == "empty repository"


async def test_an_issue_about_nothing_in_the_code_has_no_relevant_files(tmp_path: Path) -> None:
    shop = await open_shop(tmp_path, {"zzz.py": "qqq = 1\n"})
    no = await unsolved(shop, ScriptedModel({}), scout=False)
    assert no.reason == "no relevant files"


async def test_a_person_is_told_each_stage_in_plain_words(shop: Shop) -> None:
    await solved(shop, ScriptedModel(simple(GOOD_EDIT, APPROVE)))
    began = [event.stage for event in shop.events if isinstance(event, StageBegan)]
    assert list(dict.fromkeys(began)) == ["context", "edits", "choice", "reproduction"]
    assert any("1 of 1 sample" in line for line in shop.said)
    assert any("Chosen: the edit of sample 1, " in line for line in shop.said)


async def test_what_a_resumed_run_finds_is_counted_again(shop: Shop) -> None:
    counts: list[tuple[int, int, int]] = []
    for _ in range(2):
        shown: list[Progress] = []
        tracker = ProgressTracker(shown.append)
        await solved(shop, ScriptedModel(simple(GOOD_EDIT, APPROVE)))
        for event in shop.events:
            tracker.report(event)
        last = shown[-1]
        counts.append((last.tests, last.edits, last.edits_begun))
        shop.events.clear()
        (shop.folder / "store" / f"{OUTCOME_KEY}.json").unlink()
    assert counts == [(1, 1, 1)] * 2


@pytest.mark.parametrize(("price", "told"), [(4, True), (0, False)])
async def test_what_a_run_may_cost_is_told_where_the_model_has_a_price(
    shop: Shop, price: float, told: bool
) -> None:
    model = ScriptedModel(simple(GOOD_EDIT, APPROVE), price=Price(output=price))
    await solved(shop, model)
    (said,) = (line for line in shop.said if "a script and an edit" in line)
    assert (f"${Options().dollars:.2f}" in said) is told
