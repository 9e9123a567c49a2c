"""Chooses among finalists pair by pair, by tests that tell the two apart, until one is left.

The two with the most evidence meet first. Models prefer what they read first (arXiv 2306.05685,
section 3.3), so where no run carries a choice, the pair is asked about again in the other order.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Coroutine, Sequence
from dataclasses import dataclass
from typing import Any

from pipeline.concurrency import gather_all
from pipeline.selection.finalists import Finalists
from pipeline.selection.machines.discriminate import DiscriminatingState, Round
from pipeline.state import Phase
from sandbox.base import Execution

REPORTS_ISSUE = 2
"""The exit code of a script that reports the issue."""

Ask = Callable[[Finalists], Coroutine[Any, Any, DiscriminatingState]]
"""Has a model compare two finalists, in their order."""
Run = Callable[[str, int], Coroutine[Any, Any, Execution]]
"""Runs a script with an edit: a candidate of the table."""


@dataclass(frozen=True)
class Settled:
    chosen: int
    """A candidate of the table."""
    rounds: int
    """How many scripts were written."""
    states: tuple[DiscriminatingState, ...]
    """The conversations as they ended."""

    @property
    def asked(self) -> bool:
        """Whether a model named a candidate in every pair."""
        return all(state.phase is Phase.APPROVED for state in self.states)


async def settle(finalists: Finalists, ask: Ask, run: Run) -> Settled:
    """Compare the first two of `finalists`; the winner meets the next, until one is left.

    A finalist that fails a script by which a pair was decided drops out without a pair of its own.
    """
    left: list[int] = list(range(len(finalists.indices)))
    conversations: list[DiscriminatingState] = []
    while len(left) > 1:
        one, other, *rest = left
        had = [await ask(_pick(finalists, (one, other)))]
        if not _is_carried(had[0]) and had[0].phase is not Phase.OUT_OF_BUDGET:
            had.append(await ask(_pick(finalists, (other, one))))
        conversations += had
        winner, decided_by = _decide(had)
        left = [(one, other)[winner]]
        for at in rest:
            if not await _reports_issue(run, decided_by, finalists.indices[at]):
                left.append(at)
    rounds = sum(len(state.rounds) for state in conversations)
    return Settled(finalists.indices[left[0]], rounds, tuple(conversations))


def _pick(finalists: Finalists, positions: Sequence[int]) -> Finalists:
    """Only these, in this order; each keeps its letter."""
    return dataclasses.replace(
        finalists,
        indices=[finalists.indices[at] for at in positions],
        letters=[finalists.letters[at] for at in positions],
        suite=[finalists.suite[at] for at in positions] if finalists.suite else [],
    )


def _is_carried(state: DiscriminatingState) -> bool:
    """Whether the model chose the one that passes more of the scripts that count."""
    if state.phase is not Phase.APPROVED:
        return False
    passed = _count_passed(state.rounds)
    return passed[state.chosen] > passed[1 - state.chosen]


def _decide(had: Sequence[DiscriminatingState]) -> tuple[int, tuple[str, ...]]:
    """The winner of a pair, 0 or 1, and the scripts that show it.

    Where two conversations disagree, the scripts of both decide; where these are even, the one that
    had more evidence before.
    """
    first, *more = had
    rounds = list(first.rounds)
    named = [first.chosen] if first.phase is Phase.APPROVED else []
    for state in more:  # in the other order
        rounds += [_turn_round(one) for one in state.rounds]
        named += [1 - state.chosen] if state.phase is Phase.APPROVED else []
    passed = _count_passed(rounds)
    winner = named[0] if len(set(named)) == 1 else int(passed[1] > passed[0])
    shown = [one.script for one in rounds if one.separates and one.runs[winner].passed]
    return winner, tuple(shown)


def _turn_round(one: Round) -> Round:
    return Round(script=one.script, base=one.base, runs=one.runs[::-1], fault=one.fault)


def _count_passed(rounds: Sequence[Round]) -> tuple[int, int]:
    """How many of the scripts that count each of the two passes."""
    counting = [one.runs for one in rounds if one.separates]
    return sum(runs[0].passed for runs in counting), sum(runs[1].passed for runs in counting)


async def _reports_issue(run: Run, scripts: Sequence[str], candidate: int) -> bool:
    """Whether one of `scripts` reports the issue with `candidate`."""
    runs = await gather_all(run(script, candidate) for script in scripts)
    return any(done.exit_code == REPORTS_ISSUE for done in runs)
