"""Turns an edit of a run without a fix into an unproven selection, at a person's request."""

from __future__ import annotations

from pipeline import reasons
from pipeline.codebase.text import pluralize
from pipeline.reproduction.mechanical import show_script
from pipeline.selection.letters import rank_result, to_letter
from pipeline.selection.voting import reproducing_tests, suspect_files
from pipeline.types import (
    Candidate,
    Context,
    Evidence,
    Issue,
    JudgedEdits,
    NoFix,
    Reproduction,
    Selection,
    TestScript,
    VoteTable,
    replace,
)
from sandbox.base import Execution

_FILES = 10


def propose_unproven(no_fix: NoFix, rank: int, *, by: str, issue: Issue) -> Selection:
    """Select the edit at `rank`, from 0, of `no_fix`, requested by the person `by`. Executes
    nothing.

    The evidence is the script that reports the issue, with its results in that run.

    Raises:
        ValueError: there is no such edit.
    """
    edits, ranked = no_fix.edits, rank_result(no_fix)
    if edits is None or not 0 <= rank < len(ranked):
        raise ValueError("no such edit")
    at, letter = ranked[rank], to_letter(rank)
    candidate = edits.votes.candidates[at]
    evidence = Evidence(
        votes=edits.votes,
        finalists=ranked,
        selection_rounds=0,
        reproduction=_find_script(edits.votes, at),
        suite=edits.suite if rank == 0 else None,
        suite_problem=edits.suite_problem if rank == 0 else reasons.OTHER_SUITE,
        title=f"Fix: {issue.title}",
        cause=reasons.NO_WORDS,
        change=_describe_change(edits.votes, candidate, letter),
        context=edits.context or Context(files=()),
        method=edits.method,
        why=f"{by} chose edit {letter} of a run that proposed none: {no_fix.reason}.",
        standings=edits.standings,
        order=ranked,
        unproven=_explain(no_fix, edits, at, letter),
    )
    confidence = edits.confidence if rank == 0 and edits.confidence is not None else 0.0
    return Selection(
        candidate=candidate, decided_by="person", confidence=confidence, evidence=evidence
    )


def _find_script(table: VoteTable, at: int) -> Reproduction:
    """Find a script that reports the issue and that the edit passes; else any script."""
    reporting = [test for test in reproducing_tests(table) if test not in table.flaky]
    passed = [test for test in reporting if table.runs[at][test].passed]
    best = next(iter((*passed, *reporting)), None)
    if best is None:
        never = Execution(exit_code=None, output="No script reports the issue.", seconds=0)
        return show_script(TestScript(text=""), never, never)
    return show_script(table.tests[best], table.base[best], table.runs[at][best])


def _describe_change(table: VoteTable, candidate: Candidate, letter: str) -> str:
    alone = replace(table, candidates=(candidate,))
    paths = ", ".join(f"`{path}`" for path in suspect_files(alone)[:_FILES])
    return f"This is edit {letter}. It changes {paths or 'tests and documents only'}."


def _explain(no_fix: NoFix, edits: JudgedEdits, at: int, letter: str) -> str:
    votes, tests = edits.votes.votes(at), len(edits.votes.tests)
    broken = edits.standings[at].broken if edits.standings else None
    parts = [
        f"The run ended without a fix ({no_fix.reason}).",
        f"Edit {letter} passes {votes} of {pluralize(tests, 'script')}.",
    ]
    if broken:
        parts.append(f"It breaks {len(broken)} of this repository's own tests.")
    return " ".join(parts)
