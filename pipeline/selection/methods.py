"""The selection methods that ask no solver: each gives the equally good candidates and a full
order.

`solve` and `evaluate` use the same definitions. Where a paper draws at random, `best_candidates`
returns the whole set it draws from, and `rank_candidates` puts the shorter diff first, then the
earlier candidate.

* `voting`: passes most of all tests (CodeMonkeys, section 2.3, method 1).
* `ast_voting`: equal to most candidates after normalisation (SWE-Reasoner's Voting; Agentless).
* `exec`: passes its own script and breaks none of the repository's tests, at random among those
  (SWE-Reasoner, section 3.4, Exec).
* `orm_exec`: like `exec`; the reward model breaks ties (ORM_Exec).
* `dev_search`: most tests passed, voting ones and the repository's own, ties to the reward model:
  the last step of Dev-Search (section 2.2.1). Its search through files and places is no part of
  choosing.
* `evidence`, ours: the sum of what the texts and the executions say, in log-odds; to those within
  `TIE_LOG_ODDS` of the best, a reward model adds its reward, weighted. Edits that behave alike in
  `ALIKE_TESTS` tests or more, and with each test that one of them brings (`alike`), or that are the
  same code, stand or fall together: of these, the one that changes most of the files that the
  checklist names comes first, then the one that the texts, the agreement of the samples and the
  reward favour; of the same code, one that also mends or adds tests, what these read, or
  documentation, then the one that changes the fewest lines.

`model`, `top3` and `machine` have a model choose from a `shortlist`.
"""

from pipeline.data.options import SelectionMethod
from pipeline.selection.scoring.features import best, measure_extent
from pipeline.selection.scoring.standings import Standings

TIE_LOG_ODDS = 0.5
"""In log-odds: the evidence does not separate candidates nearer than this."""

ALIKE_TESTS = 2
"""The fewest voting tests on which the claim that edits behave alike can rest."""

SortKey = tuple[float, ...]
"""Higher is better."""


def best_candidates(method: SelectionMethod, standings: Standings) -> list[int]:
    """The equally good candidates that `method` would choose from; empty if there are no
    candidates."""
    keys = _keys(method, standings)
    top = max(keys, default=())
    return [c for c, key in enumerate(keys) if key == top]


def rank_candidates(method: SelectionMethod, standings: Standings) -> list[int]:
    """All candidates, best first."""
    keys = _keys(method, standings)
    candidates = standings.table.candidates
    return sorted(
        range(len(candidates)),
        key=lambda c: (*(-part for part in keys[c]), len(candidates[c].patch.diff), c),
    )


def shortlist(
    method: SelectionMethod, standings: Standings, count: int, *, by_code: bool = False
) -> tuple[int, ...]:
    """The candidates that a model chooses among, best first; equal diffs are one candidate.

    `model`: all. `top3` and `machine`: the `count` that pass most tests, the shorter diff first on
    ties. `evidence`: the `count` best of those that reproduce the issue and break nothing, if there
    are any; edits that behave alike, or are equal after normalisation, are one. With `by_code`,
    where all behave alike, only equal ones are. Other methods: only the first.
    """
    if method == "model":
        return standings.table.distinct(standings.table.order())
    if method in ("top3", "machine"):
        return standings.table.leaders(count)
    order = rank_candidates(method, standings)
    if method != "evidence":
        return tuple(order[:1])
    fit = [c for c in order if standings.reproduces(c) and not standings.breaks(c)] or order
    equal: dict[int, int] = {}
    alike: dict[tuple[int, ...], int] = {}
    for c in fit:
        if equal.setdefault(standings.entries[c].same_as, c) == c:
            alike.setdefault(_behaviour(standings, c), c)
    apart = equal if by_code and len(alike) == 1 else alike
    return tuple(apart.values())[:count]


def behaving_alike(standings: Standings, candidate: int) -> tuple[int, ...]:
    """The candidates that behave like `candidate` in every test, itself included."""
    same = _behaviour(standings, candidate)
    return tuple(c for c in range(len(standings.entries)) if _behaviour(standings, c) == same)


def likeliest_alike(standings: Standings, candidate: int) -> tuple[int, ...]:
    """The best of `behaving_alike`, before what they change besides, and how much, counts."""
    group = behaving_alike(standings, candidate)
    keys = {c: _quality_among_alike(standings, c)[:2] for c in group}
    top = max(keys.values())
    return tuple(c for c in group if keys[c] == top)


def _prior_of_code(standings: Standings, candidate: int) -> float:
    """The highest prior of the candidates with its code: their tests and documentation differ, and
    the fewer there are, the likelier an edit looks."""
    code = standings.entries[candidate].same_as
    return max(one.prior for one in standings.entries if one.same_as == code)


def candidates_for_reward(method: SelectionMethod, standings: Standings) -> tuple[int, ...]:
    """The tied candidates, for which a reward model is asked."""
    match method:
        case "orm_exec" | "dev_search":
            tied = best_candidates(method, standings)
        case "evidence" if standings.reward_weight:
            tied = _close_to_best(standings)
        case _:
            return ()
    distinct = standings.table.distinct(tied)
    return distinct if len(distinct) > 1 else ()


def is_verified(standings: Standings, candidate: int) -> bool:
    """Whether it passes its own script (without one, any voting test) and breaks nothing."""
    own = standings.table.candidates[candidate].test
    tests = [t for t in standings.voters if standings.table.tests[t] == own] or standings.voters
    runs = standings.table.runs[candidate]
    broken = standings.entries[candidate].broken
    return any(runs[test].passed for test in tests) and not broken


def _keys(method: SelectionMethod, standings: Standings) -> list[SortKey]:
    entries = standings.entries
    match method:
        case "evidence":
            return _evidence(standings)
        case "voting" | "model" | "top3" | "machine":  # the order if no model decides
            return [(standing.votes,) for standing in entries]
        case "ast_voting":
            return [(standing.support,) for standing in entries]
        case "exec" | "orm_exec":
            keys: list[SortKey] = [(float(is_verified(standings, c)),) for c in range(len(entries))]
        case "dev_search":
            keys = [(float(one.passes - len(one.broken or ())),) for one in entries]
    return keys if method == "exec" else _break_ties_by_reward(keys, standings)


def _break_ties_by_reward(keys: list[SortKey], standings: Standings) -> list[SortKey]:
    """Append the reward to `keys`, if all the best candidates have one."""
    top = max(keys, default=())
    tied = {c for c, key in enumerate(keys) if key == top}
    if any(standings.entries[c].reward is None for c in tied):
        return [(*key, 0.0) for key in keys]
    return [
        (*key, (standings.entries[c].reward or 0.0) if c in tied else 0.0)
        for c, key in enumerate(keys)
    ]


def _evidence(standings: Standings) -> list[SortKey]:
    near = _close_to_best(standings)
    rewards = {c: reward for c in near if (reward := standings.entries[c].reward) is not None}
    known = bool(near) and len(rewards) == len(near)
    alike = [
        sum(o.behaves_as == s.behaves_as for o in standings.entries) for s in standings.entries
    ]
    groups = [_behaviour(standings, c) for c in range(len(standings.entries))]
    scores: dict[tuple[int, ...], float] = {}
    for c, (group, standing) in enumerate(zip(groups, standings.entries, strict=True)):
        score = standing.score + (standings.reward_weight * rewards.get(c, 0.0) if known else 0.0)
        scores[group] = max(score, scores.get(group, score))
    return [
        (
            float(known and c in rewards),
            round(scores[groups[c]], 9),
            alike[c],
            *(_quality_among_alike(standings, c) if len(groups[c]) > 1 else ()),
        )
        for c in range(len(standings.entries))
    ]


def _behaviour(standings: Standings, candidate: int) -> tuple[int, ...]:
    """A key that candidates share if they behave alike; without enough tests, if they are the same
    code."""
    standing, breaks = standings.entries[candidate], int(standings.breaks(candidate))
    if len(standings.voters) < ALIKE_TESTS or not standings.reproduces(candidate):
        return -1, standing.same_as, breaks
    return standing.behaves_as, breaks


def _quality_among_alike(standings: Standings, candidate: int) -> SortKey:
    extent = measure_extent(standings.table.candidates[candidate].patch.diff)
    entry = standings.entries[candidate]
    score = _prior_of_code(standings, candidate) + standings.reward_weight * (entry.reward or 0.0)
    return entry.covers, round(score, 9), len(extent.companions), -extent.source


def _close_to_best(standings: Standings) -> list[int]:
    scores = [standing.score for standing in standings.entries]
    fit = [c for c in range(len(scores)) if standings.reproduces(c) and not standings.breaks(c)]
    pool = fit or list(range(len(scores)))
    top = [scores[c] for c in best(pool, scores)[:1]]
    return [c for c in pool if scores[c] >= top[0] - TIE_LOG_ODDS] if top else []
