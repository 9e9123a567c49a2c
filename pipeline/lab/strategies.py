"""SWE-Reasoner's strategies by budget."""

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
from pipeline.lab.render import PER_CENT, line_chart, section
from pipeline.lab.scoring import StrategyScore
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
    if len({one.budget for one in scores}) < 2:
        return ""
    lines: dict[str, list[tuple[float, float]]] = {}
    for one in scores:
        lines.setdefault(one.strategy, []).append((float(one.budget), one.score))
    return line_chart("Resolved by budget", "edits drawn for each instance", PER_CENT, lines)
