"""How sure the bot was, and how often it was right."""

from __future__ import annotations

from bot.comments.statistics import render_curve


def test_the_curve_holds_each_range_once() -> None:
    text = render_curve([(number / 40, float(number > 12)) for number in range(40)])
    rows = [line for line in text.splitlines() if line.startswith("| 8 |")]
    assert rows[:3] == ["| 8 | 9% | 0% |", "| 8 | 29% | 38% |", "| 8 | 49% | 100% |"]
    assert "bar [0, 38, 100, 100, 100]" in text
    assert "line [9, 29, 49, 69, 89]" in text


def test_a_few_edits_make_no_curve() -> None:
    assert render_curve([(0.5, 1.0)]) == ""
