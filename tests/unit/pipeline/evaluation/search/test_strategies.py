"""Exec, ORM_Exec, Voting and Dev-Search by budget, from runs as they are saved."""

from __future__ import annotations

import pytest

from pipeline.evaluation.bundles import FinishedRun
from pipeline.evaluation.dollars import SampleCost
from pipeline.evaluation.search.strategies import StrategyCase, render_strategies, score_strategies
from pipeline.selection.scoring.standings import build_standings
from pipeline.types import Candidate, Context, Patch, SearchRecord, TestScript, VoteTable
from sandbox.base import Execution
from tests.support.data.evaluation import RIGHT, WRONG

FAILS, PASSES = (Execution(exit_code=code, output="", seconds=0.1) for code in (2, 0))
TEST = TestScript(text="right?\n")


def case(*right: bool, width: int = 0, reward: float | None = None) -> StrategyCase:
    """Wrong edits pass no test; all edits break nothing; `reward` goes to right ones."""
    diffs = [
        (RIGHT if good else WRONG).replace("\n+", f"\n+v{n} = ", 1) for n, good in enumerate(right)
    ]
    table = VoteTable(
        candidates=tuple(
            Candidate(sample=n, patch=Patch(diff=diff), test=TEST) for n, diff in enumerate(diffs)
        ),
        tests=(TEST,),
        base=(FAILS,),
        runs=tuple((PASSES if good or reward else FAILS,) for good in right),
    )
    search = SearchRecord(width=width) if width else None
    run = FinishedRun(
        "one",
        "",
        table,
        {},
        {},
        context=Context(files=(), search=search),
        costs={n: SampleCost(0.1, (0.4,), (1,)) for n in range(len(right))},
        search_dollars=2.0 if width else 0.0,
    )
    rewards = {n: reward if good else -reward for n, good in enumerate(right)} if reward else {}
    broken = dict.fromkeys(range(len(right)), ())
    standings = build_standings(table, issue="").with_results(broken=broken, rewards=rewards)
    return run, standings, right


def scores(*cases: StrategyCase) -> dict[tuple[str, int], float]:
    return {(one.strategy, one.budget): one.score for one in score_strategies(cases)}


def test_executions_find_the_right_edit_where_it_was_drawn() -> None:
    found = scores(case(True, False, False, False))
    assert found["Exec", 1] == pytest.approx(25)
    assert found["Exec", 2] == pytest.approx(50)
    assert found["Exec", 4] == pytest.approx(100)
    assert ("Exec", 8) not in found  # no run drew so many
    assert not any(name == "Dev-Search" for name, _ in found)


def test_the_reward_model_breaks_the_ties_of_executions() -> None:
    found = scores(case(True, False, reward=1.5))
    assert (found["Exec", 2], found["ORM_Exec", 2]) == (50, 100)


def test_a_search_counts_where_it_is_as_wide_as_the_paper_says_with_its_price() -> None:
    searched = case(True, False, False, False, width=2)
    found = {one.budget: one for one in score_strategies([searched])}
    assert sorted(found) == [2, 4]
    assert {one.strategy for one in found.values()} == {"Dev-Search"}
    assert found[4].score == 100
    assert found[4].dollars == pytest.approx(2 + 4 * 0.5)
    text = "\n".join(render_strategies(list(found.values())))
    assert "| Dev-Search |  | 50.0 of 1, $3.00 | 100.0 of 1, $4.00 |  |" in text


def test_without_runs_there_is_no_table() -> None:
    assert render_strategies(score_strategies([])) == []
