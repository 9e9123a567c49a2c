"""SWE-Reasoner's strategies by budget, from runs as they are saved."""

from dataclasses import replace

import pytest

from pipeline.lab.strategies import (
    StrategyCase,
    render_strategies,
    render_strategies_figure,
    score_strategies,
)
from tests.support.data.strategy_cases import strategy_case


def scores(*cases: StrategyCase) -> dict[tuple[str, int], float]:
    return {(one.strategy, one.budget): one.score for one in score_strategies(cases)}


def test_executions_find_the_right_edit_where_it_was_drawn() -> None:
    found = scores(strategy_case(True, False, False, False))
    assert found["Exec", 1] == pytest.approx(25)
    assert found["Exec", 2] == pytest.approx(50)
    assert found["Exec", 4] == pytest.approx(100)
    assert ("Exec", 8) not in found  # no run drew so many
    assert not any(name == "Dev-Search" for name, _ in found)


def test_the_reward_model_breaks_the_ties_of_executions() -> None:
    found = scores(strategy_case(True, False, reward=1.5))
    assert (found["Exec", 2], found["ORM_Exec", 2]) == (50, 100)


def test_a_search_counts_where_it_is_as_wide_as_the_paper_says_with_its_price() -> None:
    searched = strategy_case(True, False, False, False, width=2)
    found = {one.budget: one for one in score_strategies([searched])}
    assert sorted(found) == [2, 4]
    assert {one.strategy for one in found.values()} == {"Dev-Search"}
    assert found[4].score == 100
    assert found[4].dollars == pytest.approx(2 + 4 * 0.5)
    text = "\n".join(render_strategies(list(found.values())))
    assert "| Dev-Search |  | 50.0 of 1, $3.00 | 100.0 of 1, $4.00 |  |" in text


def test_the_reward_model_is_priced_where_it_is_asked() -> None:
    run, standings, right = strategy_case(True, False, reward=1.5)
    paid = replace(run, reward_dollars=1.0)
    found = {
        (o.strategy, o.budget): o.dollars for o in score_strategies([(paid, standings, right)])
    }
    assert found["Exec", 2] == pytest.approx(2 * 0.5)
    assert found["ORM_Exec", 2] == pytest.approx(2 * (0.5 + 0.5))


def test_the_budgets_are_drawn_with_a_line_for_each_strategy() -> None:
    svg = render_strategies_figure(score_strategies([strategy_case(True, False)]))
    assert all(name in svg for name in ("Exec", "ORM_Exec", "Voting"))
    assert render_strategies_figure(score_strategies([strategy_case(True)])) == ""


def test_without_runs_there_is_no_table() -> None:
    assert render_strategies(score_strategies([])) == []
