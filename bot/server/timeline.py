"""The stages of a run with their times, tokens and cost, for its page."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Final, Literal, NamedTuple

from bot.comments.checklist import STAGE_TITLES
from bot.storage.progress import STAGES, Progress, Stage
from bot.types import Run, now
from pipeline.types import Account, Usage

_CALLS: Final[Mapping[Stage, tuple[str, ...]]] = {
    "environment": ("environment",),
    "context": ("embedding", "relevance", "ranking", "understanding", "localisation", "prm"),
    "edits": ("approaches", "testing", "editing", "exploring"),
    "choice": ("selecting", "choosing", "orm"),
    "reproduction": ("reproduction",),
}
"""Which stages of the accounts belong to each stage of the page."""
_STAGE_OF: Final = {call: stage for stage, calls in _CALLS.items() for call in calls}
_MIN_WIDTH: Final = 0.6
"""Percent: a shorter stage would not be seen."""


class StageRow(NamedTuple):
    """One stage."""

    name: Stage | Literal["other"]
    title: str
    state: Literal["done", "now", "to do", "unknown"]
    """`unknown`: its times were not kept."""
    began: datetime | None
    seconds: float | None
    """None before it began, and if its times were not kept."""
    calls: int
    usage: Usage
    dollars: float
    """At list prices."""
    left: float = 0.0
    width: float = 0.0
    """Where its bar begins and how wide it is, in percent of the run's time; 0 without times."""


def build_timeline(
    run: Run, progress: Progress, accounts: Sequence[Account]
) -> tuple[StageRow, ...]:
    """The stages in their order; empty for a run of which neither times nor costs are known."""
    began = progress.stages
    if not began and not accounts:
        return ()
    rows = [_build_row(stage, run, began, accounts) for stage in STAGES]
    others = [one for one in accounts if one.stage not in _STAGE_OF]
    if others:
        rows.append(StageRow("other", "Other", "unknown", None, None, *_sum(others)))
    return tuple(_place(rows))


def _build_row(
    stage: Stage, run: Run, began: Mapping[Stage, datetime], accounts: Sequence[Account]
) -> StageRow:
    mine = [one for one in accounts if _STAGE_OF.get(one.stage) == stage]
    start = began.get(stage)
    later = [began[one] for one in STAGES[STAGES.index(stage) + 1 :] if one in began]
    end = min(later, default=run.finished_at)
    state: Literal["done", "now", "to do", "unknown"] = "done"
    if start is None:
        state = "unknown" if run.status.final or later or mine else "to do"
    elif end is None:
        state = "now"
    seconds = None if start is None else max(0.0, ((end or now()) - start).total_seconds())
    return StageRow(stage, STAGE_TITLES[stage], state, start, seconds, *_sum(mine))


def _sum(accounts: Sequence[Account]) -> tuple[int, Usage, float]:
    usage = sum((one.usage for one in accounts), Usage())
    return sum(one.calls for one in accounts), usage, sum(one.dollars for one in accounts)


def _place(rows: Sequence[StageRow]) -> list[StageRow]:
    """The rows with the places of their bars."""
    total = sum(max(row.seconds or 0.0, 0.0) for row in rows)
    widths = [
        0.0 if row.seconds is None else max(_MIN_WIDTH, 100 * row.seconds / (total or 1.0))
        for row in rows
    ]
    scale = 100 / (sum(widths) or 100.0)
    placed: list[StageRow] = []
    left = 0.0
    for row, width in zip(rows, widths, strict=True):
        placed.append(row._replace(left=round(left, 2), width=round(width * scale, 2)))
        left += width * scale
    return placed
