"""The part of the reply to `stats` about the confidence: what was stated, and what came of it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

from bot.storage.history import DecidedEdit
from bot.types import replace
from pipeline.codebase.text import pluralize
from pipeline.selection.scoring.recalibration import (
    MIN_OUTCOMES,
    fit_recalibration,
    undo_recalibration,
)

_RANGES: Final = 5
"""Of equal width, from 0 to 1: of 30 edits, more would hold too few each."""


def render_curve(decided: Sequence[DecidedEdit]) -> str:
    """The curve as a table and as a picture that GitHub draws; empty with too few edits."""
    found = fit_recalibration([(one.confidence, one.right) for one in decided])
    if found is None:
        return ""
    ranges = [(low, edits) for low, edits in _group(decided) if edits]
    half = undo_recalibration(0.5, replace(found, shift=-found.shift))
    head = (
        "**How sure I was, and how often that was right.** Of my pull requests of the last year, "
        f"{pluralize(found.outcomes, 'decided one')} have a probability on record. Merged as I "
        "proposed it counts as right, changed by people as half right; closed, reverted or swapped "
        f"as wrong. From {MIN_OUTCOMES} on I correct what I state here by them: where I would say "
        f"50%, I now say {half:.0%}."
    )
    stated = [_mean(one.confidence for one in edits) for _, edits in ranges]
    right = [_mean(one.right for one in edits) for _, edits in ranges]
    rows = ["| Pull requests | I stated | right |", "|---|---|---|"]
    rows += [
        f"| {len(edits)} | {before:.0%} | {after:.0%} |"
        for (_, edits), before, after in zip(ranges, stated, right, strict=True)
    ]
    chart = [
        "```mermaid",
        "xychart-beta",
        '    title "Stated (line) and right (bars)"',
        "    x-axis [" + ", ".join(f'"{low:.0%}+"' for low, _ in ranges) + "]",
        '    y-axis "per cent" 0 --> 100',
        f"    bar {[round(100 * one) for one in right]}",
        f"    line {[round(100 * one) for one in stated]}",
        "```",
    ]
    return "\n\n" + "\n\n".join([head, "\n".join(rows), "\n".join(chart)])


def _group(decided: Iterable[DecidedEdit]) -> list[tuple[float, list[DecidedEdit]]]:
    groups: list[list[DecidedEdit]] = [[] for _ in range(_RANGES)]
    for one in decided:
        groups[min(int(one.confidence * _RANGES), _RANGES - 1)].append(one)
    return [(number / _RANGES, edits) for number, edits in enumerate(groups)]


def _mean(values: Iterable[float]) -> float:
    found = list(values)
    return sum(found) / len(found)
