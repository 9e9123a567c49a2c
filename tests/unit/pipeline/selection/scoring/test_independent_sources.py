"""Agreement counts between independent sources, and not between copies of one."""

from __future__ import annotations

from collections.abc import Sequence

from pipeline.data.types import Candidate, Patch, TestScript, VoteTable
from pipeline.selection.scoring.standings import build_standings
from pipeline.workflows.sampling import is_enough
from sandbox.program import Execution
from tests.support.data.diffs import diff_of

BASE = "def f(a):\n    return a\n"
EXPLORE, FIXED = ("explore", "opus"), ("fixed", "qwen")
PASSES, REPORTS = (Execution(exit_code=code, output="", seconds=0) for code in (0, 2))


def table(*made: tuple[str, tuple[str, str]]) -> VoteTable:
    """Candidates by line and source; each passes every script."""
    candidates = tuple(
        Candidate(
            sample=number,
            patch=Patch(diff=diff_of(BASE, BASE.replace("return a", line), "shop/f.py")),
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
    return build_standings(table(*made), issue="f is wrong").confidence(0)


def test_copies_of_one_source_do_not_raise_the_confidence() -> None:
    right, wrong = ("return a + 1", EXPLORE), ("return a * 3", FIXED)
    once = build_standings(table(right, wrong), issue="f").text_evidence
    often = build_standings(table(right, right, right, wrong), issue="f").text_evidence
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
    copies = table(*[("return a + 1", EXPLORE)] * 3)
    mixed = table(*[("return a + 1", EXPLORE)] * 2, ("return a + 1", FIXED))
    assert is_enough(copies, {0, 1, 2}, 3, sources=1)
    assert not is_enough(copies, {0, 1, 2}, 4, sources=2)
    assert is_enough(mixed, {0, 1, 2}, 4, sources=2)
