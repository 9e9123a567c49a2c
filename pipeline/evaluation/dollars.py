"""Coverage by what tests and edits cost, for serial and parallel work (CodeMonkeys, Figure 5)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean

from pipeline.evaluation.statistics import coverage_at_k
from pipeline.generation.editing import EditingState
from pipeline.generation.testing import TestingState
from pipeline.models.base import Price
from pipeline.replies import Tag, only_tag_or_approval
from pipeline.state import ReplyKind


@dataclass(frozen=True)
class SampleCost:
    """What one sample had spent and written after each reply of its editing machine."""

    test: float
    """US dollars of its testing machine."""
    dollars: tuple[float, ...]
    """US dollars of its editing machine after 1, 2, 3 … replies."""
    edits: tuple[int, ...]
    """The number of its edits then."""


def cost_of(test: TestingState | None, edit: EditingState, price: Price) -> SampleCost | None:
    """None for a sample that an earlier Capuchin wrote: it did not save what each reply used."""
    if len(edit.usages) != len(edit.attempts):
        return None
    spent: list[float] = []
    edits: list[int] = []
    replies = [message.text for message in edit.messages if message.role == "assistant"]
    for usage, kind, reply in zip(edit.usages, edit.attempts, replies, strict=False):
        spent.append((spent[-1] if spent else 0.0) + price.of(usage))
        written = kind is ReplyKind.REVISED and _is_edit(reply)
        edits.append((edits[-1] if edits else 0) + written)
    return SampleCost(price.of(test.usage) if test else 0.0, tuple(spent), tuple(edits))


def _is_edit(reply: str) -> bool:
    tag, _ = only_tag_or_approval(reply, "edit", "script", "approve")
    return isinstance(tag, Tag) and tag.name == "edit"


PricedRun = tuple[Mapping[int, SampleCost], Mapping[int, Sequence[int] | None]]
"""A run's samples with an edit, and the resolving revisions of those that resolve it."""


def coverage_by_dollars(
    runs: Sequence[PricedRun | None],
) -> dict[str, tuple[tuple[float, float], ...]]:
    """Mean US dollars an instance and coverage in per cent, by the number of samples.

    The points of one line are machines with at most 1, 2, 3 … replies. Counted is what the samples
    cost: their tests and their edits. Empty unless every reply's tokens and the resolving revisions
    of every resolving sample are known.
    """
    known = [run for run in runs if run is not None and run[0]]
    if not known or len(known) < len(runs):
        return {}
    if any(found is None for _, resolved in known for found in resolved.values()):
        return {}
    longest = max(len(cost.dollars) for costs, _ in known for cost in costs.values())
    widest = max(len(costs) for costs, _ in known)
    return {
        f"{width} samples" if width > 1 else "1 sample": tuple(
            (
                fmean(_dollars_at(costs, width, depth) for costs, _ in known),
                100 * fmean(_coverage_at(*run, width, depth) for run in known),
            )
            for depth in range(1, longest + 1)
        )
        for width in sorted({w for w in (1, 2, 3, 5, 8) if w < widest} | {widest})
    }


def _dollars_at(costs: Mapping[int, SampleCost], width: int, depth: int) -> float:
    """The expected cost of `width` of the samples, with at most `depth` replies each."""
    each = [
        cost.test + (cost.dollars[min(depth, len(cost.dollars)) - 1] if cost.dollars else 0.0)
        for cost in costs.values()
    ]
    return min(width, len(each)) * fmean(each)


def _coverage_at(
    costs: Mapping[int, SampleCost],
    resolved: Mapping[int, Sequence[int] | None],
    width: int,
    depth: int,
) -> float:
    right = 0
    for sample, cost in costs.items():
        written = cost.edits[min(depth, len(cost.edits)) - 1] if cost.edits else 0
        right += written > 0 and written - 1 in (resolved.get(sample) or ())
    return coverage_at_k(right, len(costs), min(width, len(costs)))
