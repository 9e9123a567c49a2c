"""The reasons for an honest no: before anything runs, and after edits were judged."""

from __future__ import annotations

from pipeline import reasons
from pipeline.codebase.commit import Codebase
from pipeline.selection.verdict import Judgement
from pipeline.selection.voting import reproducing_tests, suspect_files
from pipeline.types import NoFix, NoFixReason

_SHOWN = 10


def find_unsolvable(codebase: Codebase) -> NoFix | None:
    """Why it is useless even to prepare an environment; None if it may be useful."""
    if not codebase.files:
        return NoFix(reason="empty repository")
    if not any(path.endswith(".py") for path in codebase.files):
        return NoFix(reason="no source files", details=(reasons.NO_PYTHON,))
    return None


def abstain_below(judged: Judgement, least: float) -> NoFix:
    """Why nothing is proposed: no edit may be, or the best is not as sure as `least`."""
    verdict = judged.verdict
    if verdict.chosen is None:
        return abstain(judged, verdict.reason or "no edit")
    sure = (
        f"My best edit is right with a probability of {verdict.confidence:.0%}, and below "
        f"{least:.0%} I propose none. {verdict.why}"
    )
    return abstain(judged, "not sure enough", sure)


def abstain(judged: Judgement, reason: NoFixReason, *first: str) -> NoFix:
    """A no with everything that was learnt: how the votes went, a failing script, the files."""
    table = judged.table
    steady = [t for t in reproducing_tests(table) if t not in table.flaky]
    # The script that most edits pass is the least likely to ask for what nobody meant.
    passed = {t: sum(runs[t].passed for runs in table.runs) for t in steady}
    best = max(steady, key=lambda t: passed[t], default=None)
    facts = reasons.vote_sentences(table) if table.candidates else ()
    rejected = tuple(f"{one.name} does not apply: {one.why}" for one in table.rejected)
    return NoFix(
        reason=reason,
        details=(*first, *judged.verdict.notes, *facts, *rejected),
        script="" if best is None else table.tests[best].text,
        suspects=suspect_files(table)[:_SHOWN],
    )
