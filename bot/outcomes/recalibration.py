"""Recalibrates the confidence by what became of our earlier pull requests in a repository.

Our records hold the confidence of each, before any correction; GitHub shows what became of it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import timedelta
from typing import Final

from bot.github.repository import Repository
from bot.outcomes.pulls import PullOutcome, find_outcomes
from bot.storage.history import HISTORY_DAYS, DecidedEdit, History, RunHistoryEntry
from bot.types import RunStatus, now
from pipeline.options import Recalibration
from pipeline.selection.scoring.recalibration import MIN_OUTCOMES, fit_recalibration

MOST: Final = 100
"""How many of the latest decided pull requests count; each merged one costs a request a day."""
_RIGHT: Final[Mapping[PullOutcome, float]] = {
    PullOutcome.MERGED: 1.0,
    PullOutcome.CHANGED: 0.5,
    PullOutcome.CLOSED: 0.0,
    PullOutcome.REVERTED: 0.0,
}
"""How far an edit was right; a changed one may have been wrong, or right but for a detail."""


async def load_decided_edits(repo: Repository, history: History) -> tuple[DecidedEdit, ...]:
    """What became of our edits in the last year; GitHub is asked at most once a day.

    Empty if there cannot be `MIN_OUTCOMES` of them.

    Raises:
        GitHubError: GitHub is unavailable or rejects a request.
    """
    known = await history.load_decided(repo.ref)
    if known is not None:
        return known
    since = now() - timedelta(days=HISTORY_DAYS)
    entries = (await history.load(repo.ref, since)).entries
    stated = [one for one in entries if one.confidence is not None and one.pull]
    if len(stated) < MIN_OUTCOMES:
        return ()
    numbers = {one.pull for one in stated if one.pull}
    decided_pulls = await find_outcomes(repo, numbers, since, most=MOST)
    outcomes = {one.facts.number: one.outcome for one in decided_pulls}
    swapped = {one.pull for one in entries if one.status is RunStatus.SWAPPED}
    decided = tuple(_join(stated, outcomes, swapped))
    await history.save_decided(repo.ref, decided)
    return decided


async def load_recalibration(repo: Repository, history: History) -> Recalibration | None:
    """The correction for a new run; None as long as fewer than `MIN_OUTCOMES` are decided.

    Raises:
        GitHubError: GitHub is unavailable or rejects a request.
    """
    decided = await load_decided_edits(repo, history)
    return fit_recalibration([(one.confidence, one.right) for one in decided])


def _join(
    stated: Iterable[RunHistoryEntry],
    outcomes: Mapping[int, PullOutcome],
    swapped: set[int | None],
) -> Iterable[DecidedEdit]:
    for one in stated:
        outcome = outcomes.get(one.pull) if one.pull else None
        if outcome is None or one.confidence is None:
            continue
        # Where people took another of our edits, what became of the pull request is not its doing.
        right = 0.0 if one.pull in swapped else _RIGHT[outcome]
        yield DecidedEdit(confidence=one.confidence, right=right)
