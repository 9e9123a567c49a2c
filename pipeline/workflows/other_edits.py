"""Puts a runner-up in the place of the chosen edit: its tests are the evidence, without a model."""

from __future__ import annotations

import asyncio

from pipeline.codebase.commit import Codebase
from pipeline.options import Options
from pipeline.regression.suite import RegressionSuite
from pipeline.selection.letters import assign_letters
from pipeline.selection.scoring.standings import build_standings
from pipeline.selection.voting import suspect_files
from pipeline.store import Store
from pipeline.types import Candidate, Evidence, Issue, Reproduction, Selection, SuiteReport, replace
from sandbox.base import Sandbox

_FILES = 10


async def substitute_candidate(
    chosen: Selection,
    at: int,
    *,
    test: Reproduction,
    by: str,
    issue: Issue,
    codebase: Codebase,
    sandbox: Sandbox,
    store: Store,
    options: Options,
) -> Selection:
    """Select candidate `at` of the same table, requested by the person `by`.

    `test` is the reproduction test with its result for that edit (`try_others.run_reproduction`).
    The repository's own tests run with the edit. The evidence is only about this edit.

    Raises:
        SandboxUnavailable: no container could be started or reached.
    """
    proof = chosen.evidence
    candidate = proof.votes.candidates[at]
    suite = RegressionSuite(codebase, sandbox, store, options)
    report = await suite.compare(candidate.patch.diff)
    known = await asyncio.to_thread(
        build_standings,
        proof.votes,
        issue=f"{issue.title}\n{issue.body}",
        repository=issue.repository,
        all_tests=options.all_tests_vote,
        recalibration=options.recalibration,
    )
    if report:
        known = known.with_results(broken={at: report.broken})
    evidence = replace(
        proof,
        reproduction=test,
        suite=report,
        suite_problem="" if report else suite.problem,
        change=_describe_change(proof, _letter(proof, at), candidate, by, report),
        why=f"{by} chose this one; of my edits for the issue, it is {_letter(proof, at)}.",
        finalists=(),
        selection_rounds=0,
        cut_short="",
        notes=(),
    )
    return replace(
        chosen,
        candidate=candidate,
        decided_by="person",
        confidence=known.confidence(at),
        recalibration=options.recalibration,
        evidence=evidence,
    )


def _describe_change(
    proof: Evidence, letter: str, candidate: Candidate, by: str, report: SuiteReport | None
) -> str:
    alone = replace(proof.votes, candidates=(candidate,))
    files = (
        ", ".join(f"`{path}`" for path in suspect_files(alone)[:_FILES])
        or "tests and documents only"
    )
    text = (
        f"This is edit {letter}, as {by} asked, in place of the one that I had chosen. It changes "
        f"{files}. No model has described it; what was wrong is described as for the first edit."
    )
    if report and report.broken:
        text += f" It breaks {len(report.broken)} of this repository's own tests."
    return text


def _letter(proof: Evidence, at: int) -> str:
    return assign_letters(proof.votes, proof.order)[at]
