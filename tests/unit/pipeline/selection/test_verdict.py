"""The letters of the edits."""

from pipeline.data.types import Candidate, Patch, TestScript, VoteTable
from pipeline.selection.verdict import (
    assign_letters,
    order_by_scripts,
    rank_edits,
    to_letter,
    to_rank,
)
from sandbox.program import Ending, Execution


def run(code: int) -> Execution:
    return Execution(exit_code=code, output="", seconds=0, ending=Ending.EXIT)


def test_the_order_comes_first_and_equal_diffs_share_a_letter() -> None:
    diffs = ("worst", "same", "best", "same")
    table = VoteTable(
        candidates=tuple(Candidate(sample=n, patch=Patch(diff=d)) for n, d in enumerate(diffs)),
        tests=(TestScript(text="t"),),
        base=(run(2),),
        runs=((run(2),), (run(0),), (run(0),), (run(0),)),
    )
    assert rank_edits(table, (2,)) == (2, 1, 0)
    assert assign_letters(table, (2,)) == ("C", "B", "A", "B")
    assert rank_edits(table) == (1, 2, 0)


def test_after_the_chosen_edit_letters_follow_the_scripts_that_a_table_shows() -> None:
    table = VoteTable(
        candidates=tuple(Candidate(sample=n, patch=Patch(diff=str(n))) for n in range(4)),
        tests=(TestScript(text="t"), TestScript(text="u")),
        base=(run(2), run(2)),
        runs=((run(2), run(2)), (run(0), run(0)), (run(0), run(2)), (run(0), run(0))),
    )
    order = order_by_scripts(table, (2, 0))
    assert order == (2, 1, 3, 0)
    assert assign_letters(table, order) == ("D", "B", "A", "C")


def test_a_letter_names_a_rank_and_a_rank_a_letter() -> None:
    assert [to_letter(n) for n in (0, 1, 25, 26, 27, 99)] == ["A", "B", "Z", "AA", "AB", "CV"]
    assert all(to_rank(to_letter(n)) == n for n in range(702))
    assert (to_rank(" b "), to_rank("1"), to_rank(""), to_rank("ABC"), to_rank("Ä")) == (
        1,
        None,
        None,
        None,
        None,
    )
