"""SWE-Reasoner's strategies by budget and by difficulty, from runs as they are saved."""

from __future__ import annotations

import xml.etree.ElementTree as ET
from dataclasses import replace

import pytest

from pipeline.lab.strategies import (
    StrategyCase,
    find_levels,
    render_difficulty,
    render_difficulty_figures,
    render_strategies,
    render_strategies_figure,
    score_by_difficulty,
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
    assert svg.count("<polyline") == 3
    assert render_strategies_figure(score_strategies([strategy_case(True)])) == ""


def test_without_runs_there_is_no_table() -> None:
    assert render_strategies(score_strategies([])) == []


def named(name: str, tokens: int | None, *right: bool) -> StrategyCase:
    run, standings, found = strategy_case(*right)
    return replace(run, instance=name, output_tokens=tokens), standings, found


def test_the_levels_are_those_of_the_paper() -> None:
    solved = {"a": 30, "b": 25, "c": 24, "d": 15, "e": 10, "f": 9, "g": 0}
    # The systems beside the best 30 do not count.
    public = {f"weak-{n}": ["g"] for n in range(9)}
    public |= {f"best-{n:02}": [i for i, most in solved.items() if n < most] for n in range(29)}
    public["best-29"] = ["a", "x", "y"]
    found = find_levels(public, [*solved])
    assert found == {"a": 1, "b": 1, "c": 2, "d": 3, "e": 4, "f": 5, "g": 5}
    assert find_levels({}, ["a"]) == {"a": 5}


def test_each_level_has_its_scores_its_tokens_and_its_pictures() -> None:
    cases = [
        named("easy", 1000, True, True),
        named("easier", 3000, True, True),
        named("hard", 9000, True, False),
        named("unknown", 5, False, False),
    ]
    found = score_by_difficulty(cases, {"easy": 1, "easier": 1, "hard": 5})
    assert [(one.level, one.instances, one.output_tokens) for one in found] == [
        (1, 2, 2000),
        (5, 1, 9000),
    ]
    text = "\n".join(render_difficulty(found))
    assert "| level | instances | tokens written | Exec, 1 | Exec, 2 |" in text
    assert "| 5 | 1 | 9,000 | 50.0 | 100.0 |" in text
    figures = render_difficulty_figures(found)
    assert {"difficulty.svg", "difficulty_exec.svg", "difficulty_tokens.svg"} <= figures.keys()
    for svg in figures.values():
        ET.fromstring(svg)


def test_unknown_tokens_are_left_out() -> None:
    found = score_by_difficulty([named("a", None, True), named("b", 5, True)], {"a": 1, "b": 1})
    assert found[0].output_tokens is None
    assert "difficulty_tokens.svg" not in render_difficulty_figures(found)
    assert (render_difficulty(()), render_difficulty_figures(())) == ([], {})
