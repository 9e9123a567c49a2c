from pathlib import Path

from pipeline.data.types import Candidate, Patch, TestScript, VoteTable
from pipeline.selection.methods import rank_candidates, shortlist
from pipeline.selection.scoring.standings import Standings, build_standings
from pipeline.selection.voting import reproducing_tests, vote
from tests.support.data.diffs import diff_of
from tests.support.sandboxes import TableSandbox, bare_workspace


def candidate(sample: int, diff: str, test: str | None) -> Candidate:
    script = TestScript(text=test) if test else None
    return Candidate(sample=sample, patch=Patch(diff=diff), test=script)


def known(table: VoteTable) -> Standings:
    return build_standings(table, issue="")


async def test_every_distinct_edit_meets_every_distinct_test_once(tmp_path: Path) -> None:
    sandbox = TableSandbox({("t", ""): 2, ("u", ""): 0, ("t", "A"): 0, ("u", "A"): 0})
    candidates = [
        candidate(0, "A", "t"),
        candidate(1, "B", "u"),
        candidate(2, "A", "t"),
        candidate(3, "C", None),
    ]
    table = await vote(candidates, bare_workspace(sandbox, tmp_path))
    assert sorted(sandbox.asked) == sorted(
        (test, (diff,) if diff else ()) for test in "tu" for diff in ("", "A", "B", "C")
    )
    assert [table.votes(c) for c in range(4)] == [2, 0, 2, 0]
    assert reproducing_tests(table) == [0]
    assert shortlist("evidence", known(table), 3) == (0,)


async def test_edits_whose_tests_and_documents_alone_differ_share_their_runs(
    tmp_path: Path,
) -> None:
    code = diff_of("a = 0\n", "a = 1\n", "a.py")
    edits = [
        code,
        code + diff_of("", "def test_a(): ...\n", "tests/test_a.py"),
        code + diff_of("", "a = 2\n", "b.py"),  # a module beside
        code.replace("a = 1", "a = 1  # one"),
    ]
    sandbox = TableSandbox({("t", diff): 0 for diff in edits})
    candidates = [candidate(n, diff, "t") for n, diff in enumerate(edits)]
    table = await vote(candidates, bare_workspace(sandbox, tmp_path))
    assert [diffs for _, diffs in sandbox.asked] == [(), *((edits[n],) for n in (0, 2, 3))]
    assert [table.votes(c) for c in range(4)] == [1, 1, 1, 1]


async def test_rows_are_saved_one_by_one_and_not_run_again(tmp_path: Path) -> None:
    first = TableSandbox({})
    await vote([candidate(0, "A", "t")], bare_workspace(first, tmp_path))
    second = TableSandbox({})
    both = [candidate(0, "A", "t"), candidate(1, "B", None)]
    await vote(both, bare_workspace(second, tmp_path))
    assert second.asked == [("t", ("B",))]


async def test_an_edit_that_passes_only_what_passes_anyway_is_no_finalist(tmp_path: Path) -> None:
    sandbox = TableSandbox({("t", ""): 2, ("u", ""): 0, ("u", "A"): 0, ("t", "B"): 0})
    candidates = [candidate(0, "A", "t"), candidate(1, "B", "u")]
    table = await vote(candidates, bare_workspace(sandbox, tmp_path))
    assert shortlist("evidence", known(table), 3) == (1,)


async def test_the_papers_finalists_are_led_by_votes_then_by_shortness(tmp_path: Path) -> None:
    codes = {(t, d): 0 for t in "tu" for d in ("AA", "A", "BBB")} | {("u", "BBB"): 2}
    codes |= {("t", ""): 2, ("u", ""): 2}
    candidates = [candidate(0, "BBB", "t"), candidate(1, "AA", "u"), candidate(2, "A", "u")]
    table = await vote(candidates, bare_workspace(TableSandbox(codes), tmp_path))
    assert shortlist("top3", known(table), 2) == (2, 1)
    assert rank_candidates("voting", known(table)) == [2, 1, 0]


async def test_not_too_many_run_side_by_side(tmp_path: Path) -> None:
    sandbox = TableSandbox({})
    candidates = [candidate(n, "A", f"t{n}") for n in range(30)]
    await vote(candidates, bare_workspace(sandbox, tmp_path))
    assert sandbox.most_running == 8


async def test_without_any_test_there_is_an_empty_table(tmp_path: Path) -> None:
    table = await vote([candidate(0, "A", None)], bare_workspace(TableSandbox({}), tmp_path))
    assert (table.tests, table.base, reproducing_tests(table)) == ((), (), [])
    assert shortlist("evidence", known(table), 3) == (0,)


async def test_a_table_keeps_little_of_what_was_printed(tmp_path: Path) -> None:
    sandbox = TableSandbox({("a", ""): 2}, output="first" + "x" * 60_000 + "last")
    candidate = Candidate(sample=0, patch=Patch(diff="A"), test=TestScript(text="a"))
    table = await vote([candidate], bare_workspace(sandbox, tmp_path))
    kept = table.runs[0][0].output
    assert (len(kept) < 5_000, kept[:5], kept[-4:]) == (True, "first", "last")


async def test_edits_equal_after_normalisation_are_one_finalist_with_more_support(
    tmp_path: Path,
) -> None:
    plain, said, other = (
        f"--- a/x.py\n+++ b/x.py\n@@ -1 +1 @@\n-a = 1\n+a = {value}\n"
        for value in ("10 + 2", "10+2  # a dozen", "3")
    )
    codes = {("t", diff): 0 for diff in (plain, said, other)} | {("t", ""): 2}
    candidates = [candidate(n, diff, "t") for n, diff in enumerate((other, said, plain))]
    table = await vote(candidates, bare_workspace(TableSandbox(codes), tmp_path))
    # Two that are equal are one, and come before one alone, though its diff is shorter.
    found = shortlist("evidence", known(table), 3)
    assert len(found) == 2
    assert found[0] in (1, 2)
    assert [s.support for s in known(table).entries] == [1, 2, 2]
    assert [s.same_as for s in known(table).entries] == [0, 1, 1]
