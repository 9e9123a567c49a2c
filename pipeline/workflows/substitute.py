"""A runner-up in the place of the chosen edit: its tests speak for it, no model does."""

from __future__ import annotations

import asyncio

from pipeline.codebase.commit import Codebase
from pipeline.options import Options
from pipeline.regression.suite import RegressionSuite
from pipeline.selection.scoring.standings import build_standings
from pipeline.selection.voting import suspect_files
from pipeline.store import Store
from pipeline.types import Candidate, Evidence, Issue, Reproduction, Selection, SuiteReport, replace
from sandbox.base import Ending, Execution, Sandbox
from sandbox.errors import PatchRejected
from sandbox.program import Program

_FILES = 10


async def substitute_candidate(
    chosen: Selection,
    at: int,
    *,
    by: str,
    issue: Issue,
    codebase: Codebase,
    sandbox: Sandbox,
    store: Store,
    options: Options,
) -> Selection:
    """The selection of candidate `at` of the same table, as the person `by` wants it.

    The reproduction test and the repository's own tests are run with it. The test is kept in the
    evidence whether it passes or not: `after` says.

    Raises:
        SandboxUnavailable: as `Sandbox`.
    """
    proof = chosen.evidence
    candidate = proof.votes.candidates[at]
    test = await _run_test(proof.reproduction, candidate, sandbox, options)
    suite = RegressionSuite(codebase, sandbox, store, options)
    report = await suite.compare(candidate.patch.diff)
    known = await asyncio.to_thread(
        build_standings,
        proof.votes,
        issue=f"{issue.title}\n{issue.body}",
        repository=issue.repository,
        all_tests=options.all_tests_vote,
    )
    if report:
        known = known.with_results(broken={at: report.broken})
    evidence = replace(
        proof,
        reproduction=test,
        suite=report,
        suite_problem="" if report else suite.problem,
        change=_describe_change(proof, candidate, by, test, report),
        why=f"{by} chose this one; I had put it in place {proof.order.index(at) + 1}.",
    )
    return replace(
        chosen,
        candidate=candidate,
        decided_by="person",
        confidence=known.confidence(at),
        evidence=evidence,
    )


async def _run_test(
    test: Reproduction, candidate: Candidate, sandbox: Sandbox, options: Options
) -> Reproduction:
    diffs = (candidate.patch.diff, test.diff)
    try:
        after = await sandbox.run(
            Program(test.command, diffs=diffs, seconds=options.execution_seconds)
        )
    except PatchRejected as rejected:  # the edit has a file of its own in that place
        after = Execution(exit_code=1, output=str(rejected), seconds=0, ending=Ending.EXIT)
    return replace(test, after=after)


def _describe_change(
    proof: Evidence,
    candidate: Candidate,
    by: str,
    test: Reproduction,
    report: SuiteReport | None,
) -> str:
    alone = replace(proof.votes, candidates=(candidate,))
    files = (
        ", ".join(f"`{path}`" for path in suspect_files(alone)[:_FILES])
        or "tests and documents only"
    )
    text = (
        f"This is {candidate.name} in the place of the one I had chosen, as {by} asked. It changes "
        f"{files}. No model has described it; what was wrong is told as it was with the first edit."
    )
    if not test.after.passed:
        text += f" The reproduction test `{test.path}` does not pass with it, and was taken out."
    if report and report.broken:
        text += f" Of this repository's own tests it breaks {len(report.broken)}."
    return text
