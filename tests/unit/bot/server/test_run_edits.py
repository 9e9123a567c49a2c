"""Edits × scripts: nothing that was not gathered looks like a result, and a page has an end."""

from bot.server.run_edits import ALL_CHARACTERS, LEFT_OUT, MAX_EDITS, MAX_SCRIPTS, build_edit_table
from pipeline.data.suite_reports import Standing
from pipeline.data.types import Candidate, JudgedEdits, NoFix, Patch, TestScript, VoteTable
from sandbox.frozen import replace
from tests.support.data.publishing import (
    BREAKS,
    FAILS,
    FIX,
    HANGS,
    PASSES,
    proven,
    selection_of_three,
)


def test_each_edit_has_its_letter_and_each_result_its_words() -> None:
    table = build_edit_table(selection_of_three())
    assert table is not None
    assert [(edit.letter, edit.chosen, edit.votes) for edit in table.edits] == [
        ("A", True, 2),
        ("B", False, 1),
        ("C", False, 0),
    ]
    words = [run.cell.words for run in (*table.edits[1].runs, *table.edits[2].runs)]
    assert words == ["passes", "fails", "no verdict: exit code 1", "times out"]
    assert [line.kind for line in table.edits[0].diff] == ["", "", "", "hunk", "", "del", "add"]


def test_what_was_not_run_is_no_zero() -> None:
    table = build_edit_table(selection_of_three())
    assert table is not None
    assert [(edit.broken, edit.reproduction.kind) for edit in table.edits] == [(None, "")] * 3
    assert build_edit_table(NoFix(reason="no edit")) is None


def test_an_edit_with_which_only_near_tests_ran_has_their_result() -> None:
    chosen = selection_of_three()
    none = Standing(votes=0, passes=0, support=1, same_as=0, behaves_as=0, execution=0.0, prior=0.0)
    known = (none, replace(none, broken=()), replace(none, near=2))
    table = build_edit_table(proven(chosen, standings=known))
    assert table is not None
    assert [(edit.broken, edit.near) for edit in table.edits] == [
        ((), None),
        (None, 2),
        (None, None),
    ]
    assert table.edits[1].passed.endswith("breaks 2 of the repository's tests near it")


def test_a_test_runner_that_fails_with_1_did_not_break_off() -> None:
    chosen = selection_of_three()
    test = replace(chosen.evidence.reproduction, before=BREAKS)
    table = build_edit_table(proven(chosen, reproduction=test))
    assert table is not None
    assert table.reproduction is not None
    assert table.reproduction.before.cell.words == "fails"


def test_hidden_characters_show_and_a_huge_run_fits_the_page() -> None:
    many = MAX_EDITS + 5
    hidden = FIX.replace("def total", "def \u202etotal")
    diffs = [hidden.replace("a + b", f"a + b  # {c}" + "x" * 50_000) for c in range(many)]
    tests = tuple(TestScript(text="y" * 100_000) for _ in range(MAX_SCRIPTS + 2))
    ends = (PASSES, FAILS, BREAKS, HANGS)
    row = tuple(replace(ends[t % 4], output="z" * 100_000) for t in range(len(tests)))
    votes = VoteTable(
        candidates=tuple(Candidate(sample=c, patch=Patch(diff=d)) for c, d in enumerate(diffs)),
        tests=tests,
        base=row,
        runs=(row,) * many,
    )
    edits = JudgedEdits(votes=votes, order=tuple(range(many)))
    table = build_edit_table(NoFix(reason="not sure enough", edits=edits))
    assert table is not None
    assert (len(table.edits), table.more_edits) == (MAX_EDITS, 5)
    assert (len(table.scripts), table.more_scripts) == (MAX_SCRIPTS, 2)
    shown = [line.text for edit in table.edits for line in edit.diff]
    shown += [run.output for edit in table.edits for run in edit.runs]
    shown += [script.text for script in table.scripts]
    assert sum(len(text) for text in shown if text != LEFT_OUT) <= ALL_CHARACTERS
    assert "\u202e" not in "".join(shown)
    assert "\ufffd" in "".join(shown)
