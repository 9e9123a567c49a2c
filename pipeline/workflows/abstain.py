"""A no with everything that was learnt on the way, when edits were judged and none is proposed."""

from __future__ import annotations

from pipeline import reasons
from pipeline.selection.verdict import Judged
from pipeline.selection.voting import reporting, suspects
from pipeline.types import NoFix, NoFixReason

_SHOWN = 10


def kept_back(judged: Judged, least: float) -> NoFix:
    """Why nothing is proposed: no edit may be, or the best is not as sure as `least`."""
    verdict = judged.verdict
    if verdict.chosen is None:
        return told(judged, verdict.reason or "no edit")
    sure = (
        f"My best edit is right with a probability of {verdict.confidence:.0%}, and below "
        f"{least:.0%} I propose none. {verdict.why}"
    )
    return told(judged, "not sure enough", sure)


def told(judged: Judged, reason: NoFixReason, *first: str) -> NoFix:
    """A no with everything that was learnt: how the votes went, a failing script, the files."""
    table = judged.table
    steady = [t for t in reporting(table) if t not in table.flaky]
    # The script that most edits pass is the least likely to ask for what nobody meant.
    passed = {t: sum(runs[t].passed for runs in table.runs) for t in steady}
    best = max(steady, key=lambda t: passed[t], default=None)
    facts = reasons.votes(table) if table.candidates else ()
    rejected = tuple(f"{one.name} does not apply: {one.why}" for one in table.rejected)
    return NoFix(
        reason=reason,
        learnt=(*first, *judged.verdict.notes, *facts, *rejected),
        script="" if best is None else table.tests[best].text,
        suspects=suspects(table)[:_SHOWN],
    )
