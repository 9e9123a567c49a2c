"""How a choice is told."""

import dataclasses
from collections.abc import Mapping

import pytest

from pipeline.data.suite_reports import FurtherScript
from pipeline.data.types import Candidate, Patch, TestScript, VoteTable
from pipeline.selection.explain import explain_choice, explain_with_reproduction
from pipeline.selection.methods import rank_candidates
from pipeline.selection.scoring.standings import build_standings
from pipeline.selection.verdict import Judgement, Verdict
from sandbox.frozen import replace
from sandbox.program import Ending, Execution
from tests.support.data.diffs import diff_of


def ran(code: int) -> Execution:
    return Execution(ending=Ending.EXIT, exit_code=code, output="", seconds=0.1)


def explain(*scripts: Mapping[int, int], source: str = "") -> str:
    """The first of three edits, chosen by a model; `scripts`: exit codes by edit."""
    candidates = tuple(
        Candidate(
            sample=n, patch=Patch(diff=diff_of("a = 0\n", f"a = {n + 1}\n", "a.py")), source=source
        )
        for n in range(3)
    )
    table = VoteTable(candidates=candidates, tests=(), base=(), runs=((), (), ()))
    further = tuple(
        FurtherScript(
            text="", base=ran(2), candidates=tuple(codes), runs=tuple(map(ran, codes.values()))
        )
        for codes in scripts
    )
    verdict = Verdict(
        method="evidence",
        chosen=0,
        order=(0, 1, 2),
        finalists=(1, 0, 2),
        decided_by="model",
        rounds=4,
        further=further,
    )
    return explain_choice(build_standings(table, issue=""), verdict)


FOUGHT = {0: 0, 1: 2, 2: 2}
CASES: list[tuple[list[Mapping[int, int]], str]] = [
    ([], "; no further script told them apart."),
    ([FOUGHT], " after one more script, which A passes and B and C fail."),
    (
        [{0: 0, 1: 2, 2: 1}],
        " after one more script, which A passes, B fails and C ends without a verdict.",
    ),
    ([FOUGHT, {0: 0, 1: 2}], " after 2 more scripts, of which it passes both."),
    ([FOUGHT, FOUGHT, FOUGHT], " after 3 more scripts, of which it passes all 3."),
    ([FOUGHT, {0: 2, 1: 0}], " after 2 more scripts, of which it passes 1."),
    ([FOUGHT, {1: 0, 2: 2}], " after 2 more scripts, of which 1 ran with it; it passes 1."),
]


@pytest.mark.parametrize(("scripts", "end"), CASES)
def test_a_choice_by_a_model_says_how_the_scripts_ended_that_count(
    scripts: list[Mapping[int, int]], end: str
) -> None:
    assert f"A model compared edits A, B and C, and chose edit A{end}" in explain(*scripts)


def test_an_edit_from_outside_has_its_own_name() -> None:
    assert "A model compared #12, and chose #12 after" in explain(FOUGHT, source="#12")


def test_an_edit_that_was_not_compared_although_it_passes_as_much_says_why() -> None:
    """Seen: "the best 2" were A and C, above a table in which B passed all that A did."""
    candidates = tuple(
        Candidate(sample=n, patch=Patch(diff=diff_of("a = 0\n", after, "a.py")))
        for n, after in enumerate(("a = 1\n", "a = 1  # one\n", "a = 2\n"))
    )
    scripts = tuple(TestScript(text=f"s{n}") for n in range(2))
    runs = ((ran(0),) * 2, (ran(0),) * 2, (ran(0), ran(2)))
    table = VoteTable(candidates=candidates, tests=scripts, base=(ran(2),) * 2, runs=runs)
    verdict = Verdict(
        method="evidence",
        chosen=0,
        order=(0, 1, 2),
        finalists=(0, 2),
        decided_by="model",
        rounds=1,
    )
    told = explain_choice(build_standings(table, issue=""), verdict)
    assert "compared edits A and C" in told
    assert "Edit B is the same code as A." in told
    assert "Edit A passes both scripts" in told


def test_a_sample_that_took_over_an_edit_is_no_edit_more() -> None:
    one = Candidate(sample=0, patch=Patch(diff=diff_of("a = 0\n", "a = 1\n", "a.py")))
    again = replace(one, sample=1, informed_by=(0,))
    table = VoteTable(candidates=(one, again), tests=(), base=(), runs=((), ()))
    assert table.taken_over == (1,)
    verdict = Verdict(method="evidence", chosen=0, order=(0,))
    assert "the same change" not in explain_choice(build_standings(table, issue=""), verdict)


def test_edits_do_not_behave_alike_where_the_reproduction_test_tells_them_apart() -> None:
    candidates = tuple(
        Candidate(
            sample=n,
            patch=Patch(diff=diff_of("a = 0\n", f"a = {n + 1}\n" + "b = 1\n" * n, "a.py")),
        )
        for n in range(2)
    )
    scripts = tuple(TestScript(text=f"s{n}") for n in range(3))
    table = VoteTable(
        candidates=candidates, tests=scripts, base=(ran(2),) * 3, runs=((ran(0),) * 3,) * 2
    )
    standings = build_standings(table, issue="", all_tests=False)
    verdict = Verdict(method="evidence", chosen=0, order=(0, 1), decided_by="evidence")
    verdict = replace(verdict, passed_over=("C came first.",))
    verdict = replace(verdict, why=explain_choice(standings, verdict))
    judged = Judgement(table, verdict, standings)
    assert "behave alike" in verdict.why
    assert explain_with_reproduction(judged, ("passes", "passes")) == verdict.why
    apart = explain_with_reproduction(judged, ("passes", "fails"))
    assert "behave alike" not in apart
    assert apart.startswith("C came first. ")


def test_the_checklist_is_named_where_it_decides_among_edits_that_behave_alike() -> None:
    """Seen: the larger edit was chosen by the checklist, and called the smallest."""
    candidates = tuple(
        Candidate(sample=n, patch=Patch(diff=diff_of("a = 0\n", f"a = {n}\n" * n, "a.py")))
        for n in range(1, 3)
    )
    scripts = tuple(TestScript(text=f"s{n}") for n in range(2))
    runs, base = ((ran(0),) * 2,) * 2, (ran(2),) * 2
    table = VoteTable(candidates=candidates, tests=scripts, base=base, runs=runs)
    standings = build_standings(table, issue="")
    covers = [replace(one, covers=at, prior=0.0) for at, one in enumerate(standings.entries)]
    standings = dataclasses.replace(standings, entries=tuple(covers))
    order = tuple(rank_candidates("evidence", standings))
    told = explain_choice(standings, Verdict(method="evidence", chosen=1, order=order))
    assert order == (1, 0)
    assert "checklist" in told
    assert "smallest" not in told


def test_what_tells_an_edit_from_those_that_behave_alike_is_named() -> None:
    """Seen: "behaves differently in a test" of one that fails no test."""
    candidates = tuple(
        Candidate(sample=n, patch=Patch(diff=diff_of("a = 0\n", f"a = {n + 1}\n", "a.py")))
        for n in range(3)
    )
    scripts = tuple(TestScript(text=f"s{n}") for n in range(4))
    runs = ((ran(0),) * 4, (ran(0),) * 4, (ran(0),) * 3 + (ran(2),))
    base = (*(ran(2),) * 3, ran(0))  # the last one does not vote
    table = VoteTable(candidates=candidates, tests=scripts, base=base, runs=runs)
    standings = build_standings(table, issue="")
    verdict = Verdict(method="evidence", chosen=0, order=(0, 1, 2), decided_by="evidence")
    assert "edit C behaves differently in a script" in explain_choice(standings, verdict)
    judged = Judgement(table, verdict, standings)
    told = explain_with_reproduction(judged, ("passes", "passes", "passes"))
    assert "edit C behaves differently in a script" in told
    told = explain_with_reproduction(judged, ("passes", "passes", "fails"))
    assert "edit C behaves differently in the reproduction test" in told
    told = explain_with_reproduction(judged, ("passes", "passes", None))
    assert "behaves differently" not in told
