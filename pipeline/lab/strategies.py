"""SWE-Reasoner's strategies by budget and difficulty."""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from itertools import combinations
from math import comb
from statistics import fmean
from types import MappingProxyType
from typing import Final

from pipeline.data.options import SelectionMethod
from pipeline.data.types import VoteTable
from pipeline.lab.bundles import FinishedRun
from pipeline.lab.render import Axis, line_chart, percent_axis, section
from pipeline.lab.scoring import DifficultyScore, StrategyScore
from pipeline.localisation.tree_search import find_beam
from pipeline.selection.methods import best_candidates
from pipeline.selection.scoring.standings import Standings, build_standings
from sandbox.frozen import replace

BUDGETS: Final = (1, 2, 4, 8)
"""Edits drawn for each instance, as in the paper."""
DRAWS: Final = 10
"""Subsets of the edits of one run, at most."""
DEV_SEARCH: Final = "Dev-Search"
STRATEGIES: Final[Mapping[str, SelectionMethod]] = MappingProxyType(
    {"Exec": "exec", "ORM_Exec": "orm_exec", "Voting": "ast_voting", DEV_SEARCH: "dev_search"}
)
"""By name: the method that chooses. Dev-Search counts runs with the strategy `search`, the others
runs without."""
StrategyCase = tuple[FinishedRun, Standings, Sequence[bool]]
"""A run, its standings, and whether each candidate is right."""


def score_strategies(cases: Sequence[StrategyCase]) -> tuple[StrategyScore, ...]:
    """Each strategy at each budget that some run reaches; a run with fewer edits counts with all.

    A run with the strategy `search` counts only at budgets for which it is as wide as the paper
    says. Scores are means over subsets of the edits, ties a draw by lot; where the run asked the
    reward model about other ties, ORM_Exec and Dev-Search draw by lot as well.
    """
    found: list[StrategyScore] = []
    for name, method in STRATEGIES.items():
        for budget in BUDGETS:
            taken = [case for case in cases if _counts(case[0], name, budget)]
            if not any(len(case[2]) >= budget for case in taken):
                continue
            dollars = [_dollars(case[0], name, budget) for case in taken]
            known = [amount for amount in dollars if amount is not None]
            found.append(
                StrategyScore(
                    strategy=name,
                    budget=budget,
                    instances=len(taken),
                    score=100 * fmean(_score(case, method, budget) for case in taken),
                    dollars=fmean(known) if len(known) == len(dollars) else None,
                )
            )
    return tuple(found)


def _counts(run: FinishedRun, strategy: str, budget: int) -> bool:
    search = run.context.search if run.context else None
    if strategy != DEV_SEARCH:
        return search is None
    return search is not None and search.width == find_beam(budget).width


def _dollars(run: FinishedRun, strategy: str, budget: int) -> float | None:
    """The mean price of `budget` tests and edits of the run, and of its whole search; with the
    outcome reward model's share where `strategy` asks it."""
    if not run.costs:
        return None
    each = [cost.test + (cost.dollars[-1] if cost.dollars else 0.0) for cost in run.costs.values()]
    reward = run.reward_dollars / len(each) if strategy in ("ORM_Exec", DEV_SEARCH) else 0.0
    return run.search_dollars + min(budget, len(each)) * (fmean(each) + reward)


def _score(case: StrategyCase, method: SelectionMethod, budget: int) -> float:
    run, _, right = case
    if not right:
        return 0.0
    size = min(budget, len(right))
    if comb(len(right), size) <= DRAWS:
        subsets = [list(some) for some in combinations(range(len(right)), size)]
    else:
        draw = random.Random(f"{run.instance} {size}")  # noqa: S311
        subsets = [sorted(draw.sample(range(len(right)), size)) for _ in range(DRAWS)]
    return fmean(_score_draw(case, method, among) for among in subsets)


def _score_draw(case: StrategyCase, method: SelectionMethod, among: Sequence[int]) -> float:
    run, standings, right = case
    entries = [standings.entries[c] for c in among]
    drawn = build_standings(
        restrict(run.table, among),
        issue=run.issue,
        repository=standings.repository,
        base=run.base.get,
    ).with_results(
        broken={c: one.broken for c, one in enumerate(entries) if one.broken is not None},
        rewards={c: one.reward for c, one in enumerate(entries) if one.reward is not None},
    )
    chosen = best_candidates(method, drawn)
    return fmean(right[among[c]] for c in chosen) if chosen else 0.0


def restrict(table: VoteTable, among: Sequence[int]) -> VoteTable:
    """The table of some candidates and of their own tests, as if no others had been drawn."""
    own = {test.text for c in among if (test := table.candidates[c].test)}
    tests = [t for t, test in enumerate(table.tests) if test.text in own]
    return replace(
        table,
        candidates=tuple(table.candidates[c] for c in among),
        tests=tuple(table.tests[t] for t in tests),
        base=tuple(table.base[t] for t in tests),
        runs=tuple(tuple(table.runs[c][t] for t in tests) for c in among),
        flaky=tuple(n for n, t in enumerate(tests) if t in table.flaky),
        self_serving=tuple(n for n, t in enumerate(tests) if t in table.self_serving),
    )


def render_strategies(scores: Sequence[StrategyScore]) -> list[str]:
    """Lines of Markdown: a row for each strategy, a column for each budget; none without scores."""
    cells = {(one.strategy, one.budget): one for one in scores}
    names = list(dict.fromkeys(one.strategy for one in scores))
    return section(
        "Strategies by budget",
        "Per cent resolved with 1, 2, 4 and 8 edits, the number of instances, and the mean US "
        "dollars per instance.",
        ("strategy", *map(str, BUDGETS)),
        [(name, *(_cell(cells.get((name, k))) for k in BUDGETS)) for name in names],
    )


def _cell(one: StrategyScore | None) -> str:
    if one is None:
        return ""
    price = f", ${one.dollars:.2f}" if one.dollars is not None else ""
    return f"{one.score:.1f} of {one.instances}{price}"


def render_strategies_figure(scores: Sequence[StrategyScore]) -> str:
    """The scores by budget as SVG (SWE-Reasoner, Figure 8); empty without two budgets."""
    budgets = sorted({one.budget for one in scores})
    if len(budgets) < 2:
        return ""
    lines: dict[str, list[tuple[float, float]]] = {}
    for one in scores:
        lines.setdefault(one.strategy, []).append((float(one.budget), one.score))
    return line_chart(
        "Resolved by budget",
        Axis("edits drawn for each instance", 0, budgets[-1] + 1, budgets),
        percent_axis("instances resolved, %"),
        lines,
    )


LEVELS: Final = 5


def find_levels(public: Mapping[str, Sequence[str]], instances: Sequence[str]) -> dict[str, int]:
    """The difficulty of each of `instances`, 1 (easiest) to 5, by how many of the best public
    systems resolve it: of 30, 25 or more, 20, 15, 10, or fewer than 10.

    The paper's buckets end at 5 of 30 and leave the instances below out; here they are in the last.

    `public`: the instances that each system resolves.
    """
    resolved = {name: frozenset(found) for name, found in public.items()}
    # Only the systems that resolve most instances show how hard an instance is.
    best = sorted(resolved, key=lambda name: (-len(resolved[name]), name))[:30]
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
    columns = list(_lines(scores))
    rows: list[Sequence[str | int]] = []
    for one in scores:
        cells = {(s.strategy, s.budget): f"{s.score:.1f}" for s in one.strategies}
        tokens = "" if one.output_tokens is None else f"{one.output_tokens:,.0f}"
        rows.append((one.level, one.instances, tokens, *(cells.get(key, "") for key in columns)))
    heads = (f"{strategy}, {budget}" for strategy, budget in columns)
    return section(
        "By difficulty",
        "Per cent resolved by each strategy and number of edits. At least 25 of the 30 best public "
        "systems resolve the instances of level 1, fewer than 10 those of level 5.",
        ("level", "instances", "tokens written", *heads),
        rows,
    )


def render_difficulty_figures(scores: Sequence[DifficultyScore]) -> dict[str, str]:
    """File name to SVG: the strategies at their largest budgets, each by budget, and the tokens."""
    if not scores:
        return {}
    levels = tuple(float(n) for n in range(1, LEVELS + 1))
    x = Axis("difficulty (1: easiest)", 0, LEVELS + 1, levels)
    percent = percent_axis("instances resolved, %")
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
