"""The combined evidence about the candidates."""

import math
from collections.abc import Sequence
from typing import get_args

import pytest

from pipeline.data.options import SelectionMethod
from pipeline.data.suite_reports import SuiteReport, SuiteRun
from pipeline.data.types import Candidate, Patch, TestScript, VoteTable
from pipeline.regression.compare import CONTROL
from pipeline.selection.explain import explain_skipped
from pipeline.selection.finalists import describe_finalists
from pipeline.selection.methods import (
    TIE_LOG_ODDS,
    best_candidates,
    candidates_for_reward,
    rank_candidates,
    shortlist,
)
from pipeline.selection.scoring.standings import (
    Standings,
    build_standings,
    load_shipped_ratios,
    script_odds,
    suite_odds,
    voting_tests,
)
from pipeline.selection.verdict import SavedSuiteReport
from pipeline.workflows.sampling import is_enough
from sandbox.frozen import replace
from sandbox.program import Ending, Execution
from tests.support.data.diffs import diff_of
from tests.support.data.evaluation import edit

METHODS: tuple[SelectionMethod, ...] = get_args(SelectionMethod)
ONE, TWO, THREE = edit("return a + 1"), edit("return a * 3"), edit("return max(a, 7)")
FOUR = edit("return -a")


def ran(code: int | None) -> Execution:
    ending = Ending.EXIT if code is not None else Ending.TIMEOUT
    return Execution(exit_code=code, output="", seconds=0, ending=ending)


def table(
    diffs: Sequence[str], rows: Sequence[str], base: str, own: Sequence[int | None] = ()
) -> VoteTable:
    """`rows` and `base` are exit codes, one character a test; `T` is a timeout."""
    codes = [[None if code == "T" else int(code) for code in row] for row in [base, *rows]]
    tests = tuple(TestScript(text=f"t{n}") for n in range(len(base)))
    tested = [*own, *(None for _ in diffs)]
    return VoteTable(
        candidates=tuple(
            Candidate(
                sample=n,
                patch=Patch(diff=diff),
                test=None if (test := tested[n]) is None else tests[test],
            )
            for n, diff in enumerate(diffs)
        ),
        tests=tests,
        base=tuple(ran(code) for code in codes[0]),
        runs=tuple(tuple(ran(code) for code in row) for row in codes[1:]),
    )


def known(votes: VoteTable, *, all_tests: bool = False) -> Standings:
    return build_standings(votes, issue="f() is wrong", all_tests=all_tests)


def test_an_edit_that_is_passed_over_is_named_with_its_reason() -> None:
    assert explain_skipped("fix.diff", ("t",)) == (
        "fix.diff came first, but breaks tests that pass now: t."
    )
    assert explain_skipped("Edit B", ()).startswith("Edit B came first, but passes no test")


def test_a_test_votes_when_it_fails_on_the_unedited_code_and_is_steady() -> None:
    votes = table([ONE], ["0000"], "2012")
    assert voting_tests(votes) == (0, 3)
    assert voting_tests(votes, all_tests=True) == (0, 1, 2, 3)
    unsteady = replace(votes, flaky=(3,))
    assert voting_tests(unsteady) == (0,)
    assert voting_tests(unsteady, all_tests=True) == (0, 1, 2)


def test_what_tests_add_is_a_likelihood_ratio_and_many_alike_count_as_few() -> None:
    ratios = load_shipped_ratios().ratios
    rate = ratios.passes
    passed = math.log(rate.if_right / rate.if_wrong)
    failed = math.log((1 - rate.if_right) / (1 - rate.if_wrong))
    assert script_odds(table([ONE, TWO], ["0", "2"], "2"), (0,)) == pytest.approx([passed, failed])
    five = script_odds(table([ONE], ["00000"], "22222"), range(5))
    assert five == pytest.approx([passed * 5 / (1 + 4 * ratios.correlation)])
    assert script_odds(table([ONE], ["0"], "0"), ()) == [0]


def test_the_repositorys_own_tests_speak_for_or_against_or_not_at_all() -> None:
    assert suite_odds(None) == 0
    rate = load_shipped_ratios().ratios.breaks
    assert suite_odds(("a",)) == pytest.approx(math.log(rate.if_right / rate.if_wrong))
    assert suite_odds(("a", "b")) < 0 < suite_odds(())


def test_standings_say_what_is_equal_and_what_behaves_alike() -> None:
    same = edit("return a+1  # so")
    found = known(table([ONE, TWO, same, THREE], ["02", "00", "02", "T2"], "22")).entries
    assert [s.support for s in found] == [2, 1, 2, 1]
    assert [s.same_as for s in found] == [0, 1, 0, 3]
    assert [s.behaves_as for s in found] == [0, 1, 0, 3]
    assert [s.passes for s in found] == [1, 2, 1, 0]


def test_an_edit_written_with_the_same_one_in_view_is_no_agreement() -> None:
    votes = table([ONE, TWO, ONE], ["0", "0", "0"], "2")
    *first, last = votes.candidates
    seen = replace(votes, candidates=(*first, replace(last, informed_by=(0, 1))))
    alone = table([ONE, TWO], ["0", "0"], "2")
    assert known(seen).confidence(0) == known(seen).confidence(2)
    assert known(seen).confidence(0) < known(votes).confidence(0)
    assert known(seen).entries[0].prior == known(alone).entries[0].prior
    # Where all of them are one edit, it is that of a single sample.
    every = table([ONE, ONE], ["0", "0"], "2")
    shown = replace(every.candidates[1], informed_by=(0,))
    copied = known(replace(every, candidates=(every.candidates[0], shown)))
    assert copied.confidence(0) == known(table([ONE], ["0"], "2")).confidence(0)
    assert copied.confidence(0) < known(every).confidence(0)
    other = replace(votes, candidates=(*first, replace(last, informed_by=(1,))))
    assert known(other).confidence(0) == known(votes).confidence(0)


def test_what_is_learnt_of_one_edit_holds_for_all_with_its_diff() -> None:
    before = known(table([ONE, TWO, ONE], ["0", "0", "0"], "2"))
    after = before.with_results(broken={0: ("t",), 1: ()}, rewards={2: 0.5})
    assert [s.broken for s in after.entries] == [("t",), (), ("t",)]
    assert [s.reward for s in after.entries] == [0.5, None, 0.5]
    assert after.confidence(0) < before.confidence(0)
    assert after.confidence(1) > before.confidence(1)
    assert after.with_results(broken={0: ("t",)}).entries == after.entries


def test_a_test_that_most_edits_break_which_fix_the_issue_counts_against_none() -> None:
    before = known(table([ONE, TWO, THREE, FOUR], ["0", "0", "0", "2"], "2"))
    after = before.with_results(broken={0: ("old", "own"), 1: ("old",)})
    assert after.outdated == {"old"}
    assert [after.breaks(c) for c in range(4)] == [True, False, False, False]
    assert after.with_results(broken={2: ()}).confidence(1) == after.confidence(1)
    told = after.with_results(broken={2: (), 3: ("old",)})
    assert [told.breaks(c) for c in range(4)] == [True, False, False, False]
    assert told.confidence(2) == after.with_results(broken={2: ("old",)}).confidence(2)
    assert before.with_results(broken={0: ("old",), 3: ("old",)}).outdated == set()
    forged = before.with_results(broken={0: (CONTROL,), 1: (CONTROL,)})
    assert forged.breaks(0)
    assert forged.breaks(1)


def test_confidence_grows_with_what_is_passed() -> None:
    none, some, every = (known(table([ONE, TWO], [row, "2"], "2")) for row in ("2", "0", "0"))
    assert 0 < none.confidence(0) < some.confidence(0) == every.confidence(0) < 1


def test_voting_counts_every_test_and_ours_only_those_that_vote() -> None:
    votes = table([ONE, TWO], ["0022", "2000"], "2011")
    assert best_candidates("voting", known(votes)) == [1]
    assert best_candidates("evidence", known(votes)) == [0]
    assert best_candidates("dev_search", known(votes)) == [0]
    assert best_candidates("dev_search", known(votes, all_tests=True)) == [1]


def test_exec_asks_for_ones_own_test_and_an_unbroken_suite() -> None:
    votes = table([ONE, TWO, THREE], ["02", "02", "00"], "22", own=[0, 1, None])
    both = known(votes)
    assert best_candidates("exec", both) == [0, 2]
    assert best_candidates("exec", both.with_results(broken={2: ("t",)})) == [0]


def test_the_reward_parts_ties_only_where_it_knows_all_of_them() -> None:
    tied = known(table([ONE, TWO, THREE], ["0", "0", "2"], "2"))
    assert candidates_for_reward("orm_exec", tied) == (0, 1)
    assert best_candidates("orm_exec", tied.with_results(rewards={1: 2.0})) == [0, 1]
    assert best_candidates("orm_exec", tied.with_results(rewards={0: 1.0, 1: 2.0})) == [1]
    assert best_candidates("dev_search", tied.with_results(rewards={0: 1.0, 1: 2.0, 2: 9.0})) == [1]
    assert candidates_for_reward("voting", tied) == candidates_for_reward("machine", tied) == ()


def test_ours_asks_about_what_is_within_a_tie_of_the_best() -> None:
    found = known(table([ONE, edit("return 1 + a"), THREE], ["00", "00", "22"], "22"))
    near = candidates_for_reward("evidence", found)
    scores = [s.score for s in found.entries]
    assert near == tuple(c for c in (0, 1) if scores[c] >= max(scores) - TIE_LOG_ODDS)
    assert 2 not in near


def test_an_edit_that_breaks_tests_is_a_finalist_only_when_all_do() -> None:
    votes = known(table([ONE, TWO], ["0", "0"], "2"))
    assert shortlist("evidence", votes.with_results(broken={0: ("t",)}), 3) == (1,)
    assert len(shortlist("evidence", votes.with_results(broken={0: ("t",), 1: ("t",)}), 3)) == 2


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize(
    ("diffs", "rows", "base"),
    [
        ((ONE, ONE, ONE), ("00", "00", "00"), "22"),
        ((ONE, TWO, THREE), ("22", "22", "22"), "22"),
        ((ONE, TWO), ("0", "0"), "0"),
        ((ONE, TWO), ("TT", "T1"), "T1"),
        ((ONE,), ("",), ""),
        (("no diff", "\x00\ud800", ONE), ("0", "0", "2"), "2"),
        ((), (), "2"),
    ],
    ids=["equal", "all fail", "passes everywhere", "breaks", "no test", "no diff", "nothing"],
)
def test_every_way_orders_whatever_comes(
    method: SelectionMethod, diffs: tuple[str, ...], rows: tuple[str, ...], base: str
) -> None:
    found = known(table(diffs, rows, base))
    assert sorted(rank_candidates(method, found)) == list(range(len(diffs)))
    assert set(best_candidates(method, found)) <= set(range(len(diffs)))
    assert len(shortlist(method, found, 3)) <= len(set(diffs))
    assert all(0 <= found.confidence(c) <= 1 for c in range(len(diffs)))


def test_odd_diffs_stand_beside_plain_ones() -> None:
    crlf = ONE.replace("\n", "\r\n")
    mode = "diff --git a/x b/x\nold mode 100644\nnew mode 100755\n"
    renamed = "diff --git a/x b/y\nsimilarity index 100%\nrename from x\nrename to y\n"
    binary = "diff --git a/b b/b\nindex 1..2\nGIT binary patch\nliteral 1\nIcmZ\n"
    huge = diff_of("", "".join(f"x{n} = {n}\n" for n in range(50_000)), "shop/huge.py")
    diffs = [ONE, crlf, mode, renamed, binary, huge]
    found = known(table(diffs, ["0"] * 6, "2"))
    assert [s.support for s in found.entries] == [2, 2, 1, 1, 1, 1]
    assert len(rank_candidates("evidence", found)) == 6


def test_who_chooses_is_told_of_which_edit_the_repositorys_tests_say_nothing() -> None:
    standings = known(table([ONE, TWO], ["0", "0"], "2"))
    report = {ONE: SavedSuiteReport(report=None, problem="pytest is missing.")}
    assert describe_finalists(standings, (0, 1), (0, 1), report, ()).suite == [
        "The repository's own tests could not be run with it. pytest is missing.",
        "The repository's own tests were not run with it.",
    ]
    assert not describe_finalists(standings, (0, 1), (0, 1), {}, ()).suite


def compared(count: int, *, whole: int = 0, broken: int = 0) -> SavedSuiteReport:
    names = tuple(f"t{number}" for number in range(count))
    report = SuiteReport(
        command=(),
        before=SuiteRun(execution=ran(0), passed=names, failed=()),
        after=SuiteRun(execution=ran(0), passed=names[broken:], failed=names[:broken]),
        whole=whole,
    )
    return SavedSuiteReport(report=report)


def test_an_edit_with_which_only_near_tests_ran_is_told_with_their_results() -> None:
    standings = known(table([ONE, TWO, THREE], ["0", "0", "0"], "2"))
    reports = {ONE: compared(90, whole=90), TWO: compared(6), THREE: compared(6, broken=1)}
    near = "6 tests of the repository near the edit pass without it; with it "
    wider = "More of the repository's tests were run with A only."
    assert describe_finalists(standings, (0, 1, 2), (0, 1, 2), reports, ()).suite == [
        "Of the repository's own tests that were run, 90 pass with it, and it breaks none.",
        f"{near}none breaks. {wider}",
        f"{near}1 of them does not. It breaks t0. {wider}",
    ]
    few = {ONE: compared(6, whole=6), TWO: compared(6)}
    assert describe_finalists(standings, (0, 1), (0, 1), few, ()).suite[1] == f"{near}none breaks."


EXPLORE, FIXED = ("explore", "opus"), ("fixed", "qwen")
PASSES, REPORTS = (Execution(exit_code=code, output="", seconds=0) for code in (0, 2))


def table_of_sources(*made: tuple[str, tuple[str, str]]) -> VoteTable:
    """Candidates by line and source; each passes every script."""
    candidates = tuple(
        Candidate(
            sample=number,
            patch=Patch(diff=edit(line)),
            test=TestScript(text=f"script {number}"),
            machine=machine,
            model=model,
        )
        for number, (line, (machine, model)) in enumerate(made)
    )
    tests = tuple(candidate.test for candidate in candidates if candidate.test)
    runs = tuple(tuple(PASSES for _ in tests) for _ in candidates)
    return VoteTable(
        candidates=candidates, tests=tests, base=tuple(REPORTS for _ in tests), runs=runs
    )


def confidence(*made: tuple[str, tuple[str, str]]) -> float:
    return build_standings(table_of_sources(*made), issue="f is wrong").confidence(0)


def test_copies_of_one_source_do_not_raise_the_confidence() -> None:
    right, wrong = ("return a + 1", EXPLORE), ("return a * 3", FIXED)
    once = build_standings(table_of_sources(right, wrong), issue="f").text_evidence
    often = build_standings(table_of_sources(right, right, right, wrong), issue="f").text_evidence
    assert often.rows[0] == often.rows[1] == once.rows[0]
    assert often.agreement == once.agreement
    assert [group.members for group in often.groups] == [(0, 1, 2), (3,)]


def test_another_source_with_the_same_edit_does() -> None:
    same: Sequence[tuple[str, tuple[str, str]]] = [("return a + 1", EXPLORE)] * 3
    other = ("return a * 3", EXPLORE)
    alone = confidence(*same, other, ("return a - 9", FIXED))
    agreed = confidence(*same, other, ("return a + 1", FIXED))
    assert agreed > alone


def test_a_single_source_counts_as_before() -> None:
    right, wrong = ("return a + 1", FIXED), ("return a * 3", FIXED)
    assert confidence(right, right, right, wrong) > confidence(right, wrong)


def test_sampling_stops_only_when_two_of_several_sources_agree() -> None:
    copies = table_of_sources(*[("return a + 1", EXPLORE)] * 3)
    mixed = table_of_sources(*[("return a + 1", EXPLORE)] * 2, ("return a + 1", FIXED))
    assert is_enough(copies, {0, 1, 2}, 3, sources=1)
    assert not is_enough(copies, {0, 1, 2}, 4, sources=2)
    assert is_enough(mixed, {0, 1, 2}, 4, sources=2)
