"""Results by how hard the instances are (SWE-Reasoner, Figures 6, 7 and 9)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from statistics import fmean
from typing import Final

from pipeline.evaluation.plots import PERCENTS, Axis, line_chart
from pipeline.evaluation.scoring import DifficultyScore
from pipeline.evaluation.search.strategies import StrategyCase, score_strategies

BEST_SYSTEMS: Final = 30
"""The public systems that tell how hard an instance is: those that resolve most instances."""
LEVELS: Final = 5


def find_levels(public: Mapping[str, Sequence[str]], instances: Sequence[str]) -> dict[str, int]:
    """The difficulty of each of `instances`, 1 (easiest) to 5, by how many of the best public
    systems resolve it: of 30, 25 or more, 20, 15, 10, or fewer than 10.

    The paper's buckets end at 5 of 30 and leave the instances below out; here they are in the last.

    `public`: the instances that each system resolves.
    """
    resolved = {name: frozenset(found) for name, found in public.items()}
    best = sorted(resolved, key=lambda name: (-len(resolved[name]), name))[:BEST_SYSTEMS]
    found: dict[str, int] = {}
    for instance in instances:
        share = sum(instance in resolved[name] for name in best) / len(best) if best else 0.0
        steps = sum(share >= bound / (LEVELS + 1) for bound in range(2, LEVELS + 1))
        found[instance] = LEVELS - steps
    return found


def score_by_difficulty(
    cases: Sequence[StrategyCase], levels: Mapping[str, int]
) -> tuple[DifficultyScore, ...]:
    """The strategies' scores, and the tokens written, for each level that has a run."""
    found: list[DifficultyScore] = []
    for level in range(1, LEVELS + 1):
        taken = [case for case in cases if levels.get(case[0].instance) == level]
        if not taken:
            continue
        written = [run.output_tokens for run, _, _ in taken]
        known = [tokens for tokens in written if tokens is not None]
        found.append(
            DifficultyScore(
                level=level,
                instances=len(taken),
                output_tokens=fmean(known) if len(known) == len(taken) else None,
                strategies=score_strategies(taken),
            )
        )
    return tuple(found)


def render_difficulty(scores: Sequence[DifficultyScore]) -> list[str]:
    """Lines of Markdown; none without scores."""
    if not scores:
        return []
    columns = list(_lines(scores))
    rows: list[str] = []
    for one in scores:
        cells = {(s.strategy, s.budget): f"{s.score:.1f}" for s in one.strategies}
        tokens = "" if one.output_tokens is None else f"{one.output_tokens:,.0f}"
        values = " | ".join(cells.get(key, "") for key in columns)
        rows.append(f"| {one.level} | {one.instances} | {tokens} | {values} |")
    heads = " | ".join(f"{strategy}, {budget}" for strategy, budget in columns)
    return [
        "## By difficulty\n",
        "Per cent resolved by each strategy with so many edits. Level 1 is what at least 25 of the "
        "30 best public systems resolve, level 5 what fewer than 10 do.\n",
        f"| level | instances | tokens written | {heads} |",
        "|---" * (len(columns) + 3) + "|",
        *rows,
        "",
    ]


def render_difficulty_figures(scores: Sequence[DifficultyScore]) -> dict[str, str]:
    """File name to SVG: the strategies at their largest budgets, each by budget, and the tokens."""
    if not scores:
        return {}
    levels = tuple(float(n) for n in range(1, LEVELS + 1))
    x = Axis("difficulty (1: easiest)", 0, LEVELS + 1, levels)
    percent = Axis("instances resolved, %", 0, 100, PERCENTS)
    lines = _lines(scores)
    most = {strategy: max(b for s, b in lines if s == strategy) for strategy, _ in lines}
    found = {
        "difficulty.svg": line_chart(
            "Resolved by difficulty",
            x,
            percent,
            {f"{s}, {b}": points for (s, b), points in lines.items() if b == most[s]},
        )
    }
    for strategy in most:
        name = strategy.lower().replace("_", "-")
        found[f"difficulty_{name}.svg"] = line_chart(
            f"{strategy}: resolved by difficulty and number of edits",
            x,
            percent,
            {f"{b} edits": points for (s, b), points in lines.items() if s == strategy},
        )
    tokens = [(float(one.level), one.output_tokens) for one in scores if one.output_tokens]
    if tokens:
        top = max(value for _, value in tokens)
        y = Axis("tokens written for an instance", 0, top, [round(top * n / 4) for n in range(5)])
        found["difficulty_tokens.svg"] = line_chart(
            "Tokens written by difficulty", x, y, {"all models": tokens}
        )
    return found


def _lines(
    scores: Sequence[DifficultyScore],
) -> dict[tuple[str, int], list[tuple[float, float]]]:
    """By strategy and budget: level and score."""
    found: dict[tuple[str, int], list[tuple[float, float]]] = {}
    for one in scores:
        for s in one.strategies:
            found.setdefault((s.strategy, s.budget), []).append((float(one.level), s.score))
    return found
