"""The reasons for an honest no: before anything runs, and after edits were judged."""

from __future__ import annotations

from pipeline import reasons
from pipeline.codebase.commit import Codebase
from pipeline.selection.explain import vote_sentences
from pipeline.selection.letters import rank_edits
from pipeline.selection.scoring.recalibration import explain_recalibration
from pipeline.selection.verdict import Judgement
from pipeline.selection.voting import reproducing_tests, suspect_files
from pipeline.types import Context, JudgedEdits, NoFix, NoFixReason

_SHOWN = 10


def find_unsolvable(codebase: Codebase) -> NoFix | None:
    """Why preparing an environment is already useless; None if it may be useful."""
    if not codebase.files:
        return NoFix(reason="empty repository")
    if not any(path.endswith(".py") for path in codebase.files):
        return NoFix(reason="no source files", details=(reasons.NO_PYTHON,))
    return None


def abstain_below(judged: Judgement, least: float, context: Context | None = None) -> NoFix:
    """Why nothing is proposed: no edit may be, or the confidence of the best is below `least`."""
    verdict = judged.verdict
    if verdict.chosen is None:
        return abstain(judged, verdict.reason or "no edit", context=context)
    sure = (
        f"My best edit is right with a probability of {verdict.confidence:.0%}, and below "
        f"{least:.0%} I propose none. {verdict.why}"
    )
    if verdict.recalibration:
        sure += f" {explain_recalibration(verdict.confidence, verdict.recalibration)}"
    return abstain(judged, "not sure enough", sure, context=context)


def abstain(
    judged: Judgement,
    reason: NoFixReason,
    *first: str,
    context: Context | None = None,
    votes: bool = True,
) -> NoFix:
    """An honest no with everything that was learnt: the edits, the votes, a script, the files.

    `votes`: whether to describe the votes after the sentences `first`.
    """
    table = judged.table
    steady = [t for t in reproducing_tests(table) if t not in table.flaky]
    # The script that most edits pass is the least likely to test something nobody intended.
    passed = {t: sum(runs[t].passed for runs in table.runs) for t in steady}
    best = max(steady, key=lambda t: passed[t], default=None)
    facts = vote_sentences(table) if table.candidates and votes else ()
    rejected = tuple(f"{one.name} does not apply: {one.why}" for one in table.rejected)
    return NoFix(
        reason=reason,
        details=(*first, *judged.verdict.notes, *facts, *rejected),
        script="" if best is None else table.tests[best].text,
        suspects=suspect_files(table)[:_SHOWN],
        edits=_collect_edits(judged, context),
    )


def _collect_edits(judged: Judgement, context: Context | None) -> JudgedEdits | None:
    table, verdict = judged.table, judged.verdict
    if not table.candidates:
        return None
    return JudgedEdits(
        votes=table,
        order=rank_edits(table, verdict.order),
        standings=verdict.standings,
        confidence=verdict.confidence or None,
        method=verdict.method,
        suite=verdict.suite,
        suite_problem=verdict.suite_problem,
        context=context,
    )
