"""Chooses among finalists pair by pair, by tests that tell the two apart, until one is left.

The two with the most evidence meet first. Models prefer what they read first (arXiv 2306.05685,
section 3.3), so where no run carries a choice, the pair is asked about again in the other order;
not where the model found, by a script, that both do the same: then either may win.
"""

import dataclasses
from collections.abc import Callable, Coroutine, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from pipeline.concurrency import gather_all
from pipeline.data.suite_reports import FurtherScript, Reason
from pipeline.data.types import NOT_FIXED
from pipeline.selection.discriminate import DiscriminatingState, Round
from pipeline.selection.explain import describe_ends
from pipeline.selection.finalists import DecidingScript, Finalists
from pipeline.state import Phase
from prompts.text import agree, pluralize
from sandbox.frozen import replace
from sandbox.program import Execution

Ask = Callable[[Finalists], Coroutine[Any, Any, DiscriminatingState]]
"""Has a model compare two finalists, in their order."""
Run = Callable[[str, int], Coroutine[Any, Any, Execution]]
"""Runs a script with an edit: a candidate of the table."""


@dataclass(frozen=True)
class Settled:
    chosen: int
    rounds: int
    further: tuple[FurtherScript, ...]
    states: tuple[DiscriminatingState, ...]
    reasons: tuple[Reason, ...] = ()
    """What models said of those that lost to it."""

    @property
    def asked(self) -> bool:
        """Whether a model named a candidate in every pair."""
        return all(state.phase is Phase.APPROVED for state in self.states)

    def join(self, later: "Settled") -> "Settled":
        """Both, where the edit that was chosen met others in `later`."""
        stays = later.chosen == self.chosen
        return Settled(
            later.chosen,
            self.rounds + later.rounds,
            self.further + later.further,
            self.states + later.states,
            (self.reasons if stays else ()) + later.reasons,
        )


class FurtherScripts:
    """Collects the scripts that count, each with the edits with which it ran."""

    def __init__(self) -> None:
        self._base: dict[str, Execution] = {}
        self._runs: dict[str, dict[int, Execution]] = {}

    def add(self, rounds: Sequence[Round], candidates: Sequence[int]) -> None:
        """`candidates` of the table are the finalists of `rounds`, in their order."""
        for one in rounds:
            if one.separates:
                self._base.setdefault(one.script, one.base)
                self.add_runs(one.script, dict(zip(candidates, one.runs, strict=True)))

    def add_runs(self, script: str, runs: Mapping[int, Execution]) -> None:
        """Add further `runs`, by candidate, of a script that was added."""
        self._runs.setdefault(script, {}).update(runs)

    def list(self) -> tuple[FurtherScript, ...]:
        """The scripts, in the order in which they were written."""
        return tuple(
            FurtherScript(
                text=text,
                base=self._base[text],
                candidates=tuple(runs),
                runs=tuple(runs.values()),
            )
            for text, runs in self._runs.items()
        )


async def settle(finalists: Finalists, ask: Ask, run: Run) -> Settled:
    """Compare the first two of `finalists`; the winner meets the next, until one is left.

    A finalist drops out without a pair of its own only where it fails a script by which a pair was
    decided, which also fails on the unedited code, and a model says that the issue asks for that.
    """
    left: list[int] = list(range(len(finalists.indices)))
    conversations: list[DiscriminatingState] = []
    further = FurtherScripts()
    reasons: list[tuple[int, Reason]] = []
    out: list[str] = []
    decided: list[DecidingScript] = []
    names = dict(zip(finalists.indices, finalists.letters, strict=True))
    while len(left) > 1:
        one, other, *rest = left
        had: list[DiscriminatingState] = []
        for order in ((one, other), (other, one)):
            # A second opinion sees the scripts of the first.
            known = [one.script for state in had for one in state.rounds if one.separates]
            first = _describe_scripts(further.list(), names, known)
            seen = [*decided, *(one._replace(opinion=True) for one in first)]
            pair = _pick(finalists, order, rest, out, seen)
            had.append(await ask(pair))
            further.add(had[-1].rounds, pair.indices)
            if _is_carried(had[0]) or _finds_alike(had[0]) or had[0].phase is Phase.OUT_OF_BUDGET:
                break
        conversations += had
        winner, shown = _decide(had)
        decided_by = [one.script for one in shown]
        sure = _find_asked(had, winner, shown)
        left = [(one, other)[winner]]
        lost = (other, one)[winner]
        reasons += [
            (left[0], Reason(text=text, against=finalists.indices[lost]))
            for text in _list_reasons(had, winner)
        ]
        letters = finalists.letters
        how = (
            "it fails a script that the latter passes"
            if decided_by
            else "no script tells them apart"
        )
        out.append(f"{letters[lost]} lost to {letters[left[0]]}: {how}.")
        for at in rest:
            candidate = finalists.indices[at]
            runs = await gather_all(run(script, candidate) for script in decided_by)
            for script, done in zip(decided_by, runs, strict=True):
                further.add_runs(script, {candidate: done})
            ends = {text: done.exit_code for text, done in zip(decided_by, runs, strict=True)}
            if any(ends[text] == NOT_FIXED for text in sure):
                out.append(f"{letters[at]} fails that script, too.")
            else:
                left.append(at)
        decided += _describe_scripts(further.list(), names, decided_by)
    rounds = sum(len(state.rounds) for state in conversations)
    return Settled(
        finalists.indices[left[0]],
        rounds,
        further.list(),
        tuple(conversations),
        tuple(reason for winner, reason in reasons if winner == left[0]),
    )


async def run_folded(
    settled: Settled, folded: Mapping[int, Sequence[int]], run: Run
) -> tuple[Settled, list[int]]:
    """Run the scripts by which finalists lost on the edits for which they stood, by loser. Also
    those of these edits that pass them, as the winner does: they did not behave alike."""
    scripts, freed = list(settled.further), dict[int, None]()
    for lost, others in folded.items():
        for candidate in others:
            passed: list[bool] = []
            for at, script in enumerate(scripts):
                ends = dict(
                    zip(script.candidates, (one.passed for one in script.runs), strict=True)
                )
                if ends.get(lost) is False and ends.get(settled.chosen) and candidate not in ends:
                    done = await run(script.text, candidate)
                    scripts[at] = replace(
                        script,
                        candidates=(*script.candidates, candidate),
                        runs=(*script.runs, done),
                    )
                    passed.append(done.passed)
            freed.update({candidate: None} if passed and all(passed) else {})
    return dataclasses.replace(settled, further=tuple(scripts)), [*freed]


def _describe_scripts(
    further: Sequence[FurtherScript], names: Mapping[int, str], wanted: Sequence[str]
) -> list[DecidingScript]:
    return [
        DecidingScript(one.text, "; ".join(describe_ends(one, names)))
        for one in further
        if one.text in wanted
    ]


def _find_asked(
    had: Sequence[DiscriminatingState], winner: int, shown: Sequence[Round]
) -> list[str]:
    """Those of the scripts `shown` that test the issue: they fail on the unedited code, and a model
    that named the `winner` says so."""
    asked = any(state.asked and turned ^ state.chosen == winner for turned, state in enumerate(had))
    return [one.script for one in shown if asked and one.base.exit_code == NOT_FIXED]


def _list_reasons(had: Sequence[DiscriminatingState], winner: int) -> list[str]:
    """What was said for the `winner`, 0 or 1, of a pair; the second conversation had it turned."""
    named = ((state, turned ^ state.chosen) for turned, state in enumerate(had))
    return [state.why for state, one in named if one == winner and state.why][:1]


def _pick(
    finalists: Finalists,
    positions: Sequence[int],
    waiting: Sequence[int],
    out: Sequence[str],
    decided: Sequence[DecidingScript],
) -> Finalists:
    """Only these, in this order; each keeps its letter. Those in `waiting` are counted as missing;
    `out` says why others are, and `decided` what decided it."""
    return dataclasses.replace(
        finalists,
        indices=[finalists.indices[at] for at in positions],
        letters=[finalists.letters[at] for at in positions],
        suite=[finalists.suite[at] for at in positions] if finalists.suite else [],
        missing=[*_describe_waiting(len(waiting)), *out, *finalists.missing],
        decided=tuple(decided[-2:]),
    )


def _describe_waiting(count: int) -> list[str]:
    meet, them = agree(count, "meets", "meet"), agree(count, "it", "them")
    text = f"{pluralize(count, 'further edit')} {meet} the winner; the scripts that decide between "
    return [f"{text}these two are run on {them}, too."] if count else []


def _is_carried(state: DiscriminatingState) -> bool:
    """Whether the model chose the one that passes more of the scripts that count."""
    if state.phase is not Phase.APPROVED:
        return False
    passed = _count_passed(state.rounds)
    return passed[state.chosen] > passed[1 - state.chosen]


def _finds_alike(state: DiscriminatingState) -> bool:
    """Whether the model says that both do the same, after a script that came to the same verdict
    with both, and none that tells them apart."""
    ends = [{run.exit_code for run in one.runs} for one in state.rounds]
    seen = any(end in ({0}, {NOT_FIXED}) for end in ends)
    return state.alike and seen and not any(one.separates for one in state.rounds)


def _decide(had: Sequence[DiscriminatingState]) -> tuple[int, list[Round]]:
    """The winner of a pair, 0 or 1, and the scripts that show it.

    Where two conversations disagree, the scripts of both decide; where these are even, the one that
    had more evidence before. Where every script speaks against the one that was named, and one of
    them shows that it breaks what works today, the other wins whatever was said.
    """
    first, *more = had
    rounds = list(first.rounds)
    named = [first.chosen] if first.phase is Phase.APPROVED else []
    for state in more:  # in the other order
        rounds += [replace(one, runs=one.runs[::-1]) for one in state.rounds]
        named += [1 - state.chosen] if state.phase is Phase.APPROVED else []
    passed = _count_passed(rounds)
    winner = named[0] if len(set(named)) == 1 else int(passed[1] > passed[0])
    lost = (one for one in rounds if one.separates and one.base.passed)
    if not passed[winner] and any(one.runs[1 - winner].passed for one in lost):
        winner = 1 - winner
    return winner, [one for one in rounds if one.separates and one.runs[winner].passed]


def _count_passed(rounds: Sequence[Round]) -> tuple[int, int]:
    """How many of the scripts that count each of the two passes."""
    counting = [one.runs for one in rounds if one.separates]
    return sum(runs[0].passed for runs in counting), sum(runs[1].passed for runs in counting)
