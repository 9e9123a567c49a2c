"""Results by difficulty (SWE-Reasoner, Figures 6, 7 and 9), from runs as they are saved."""

from __future__ import annotations

import xml.etree.ElementTree as ET
from dataclasses import replace

from pipeline.lab.strategies import (
    StrategyCase,
    find_levels,
    render_difficulty,
    render_difficulty_figures,
    score_by_difficulty,
)
from tests.support.data.strategy_cases import strategy_case


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
