"""Another edit of the run: tried, put in place, or proposed unproven."""

import asyncio

from pipeline.codebase.unified_diff import list_paths, remove_files
from pipeline.concurrency import gather_bounded
from pipeline.data.code_places import Context
from pipeline.data.suite_reports import SuiteReport, TestOutcome
from pipeline.data.types import (
    Candidate,
    Evidence,
    Issue,
    JudgedEdits,
    NoFix,
    Patch,
    Reproduction,
    Selection,
    TestScript,
    VoteTable,
)
from pipeline.languages.registry import read_test_outcome
from pipeline.regression.suite import RegressionSuite
from pipeline.reproduction.mechanical import show_script
from pipeline.resources import Workspace
from pipeline.selection.explain import explain_with_reproduction
from pipeline.selection.judge import SuiteResults
from pipeline.selection.scoring.standings import build_standings
from pipeline.selection.verdict import Judgement, assign_letters, rank_result, to_letter
from pipeline.selection.voting import reproducing_tests, suspect_files
from prompts.text import pluralize
from sandbox.errors import PatchRejected
from sandbox.frozen import replace
from sandbox.program import Ending, Execution

MAX_TRIED = 10
_CONCURRENCY = 4


async def try_others(chosen: Selection, judged: Judgement, workspace: Workspace) -> Selection:
    """Add the results of the reproduction test with the other edits to the evidence of `chosen`,
    and to what its explanation says of edits that behave alike. `judged` chose it.

    At most `MAX_TRIED` edits are tried, best first, each once; none when the time is over.

    Raises:
        SandboxUnavailable: no container could be started or reached.
    """
    proof = chosen.evidence
    late = workspace.clock.seconds_left("reproduction") <= 0
    if late or not proof.reproduction.is_committed:
        return chosen
    edits = proof.votes.candidates
    diffs = [edits[c].patch.diff for c in rank_result(chosen)[:MAX_TRIED]]
    others = [diff for diff in diffs if diff != chosen.candidate.patch.diff]
    runs = await gather_bounded(
        _CONCURRENCY,
        (run_reproduction(proof.reproduction, Patch(diff=diff), workspace) for diff in others),
    )
    known: dict[str, TestOutcome] = {
        diff: read_test_outcome(proof.reproduction.path, run)
        for diff, run in zip(others, runs, strict=True)
    }
    known[chosen.candidate.patch.diff] = read_test_outcome(
        proof.reproduction.path, proof.reproduction.after
    )
    reproduced: tuple[TestOutcome | None, ...] = tuple(known.get(one.patch.diff) for one in edits)
    why = explain_with_reproduction(judged, reproduced)
    return replace(chosen, evidence=replace(proof, reproduced=reproduced, why=why))


async def run_reproduction(test: Reproduction, patch: Patch, workspace: Workspace) -> Execution:
    """Run the reproduction test with `patch`; the result has no exit code if it does not apply."""
    # The test's version of a file wins: an edit may contain its own tests.
    rest = remove_files(patch.diff, list_paths(test.diff))
    try:
        return await workspace.run(test.command, test.diff, rest)
    except PatchRejected as rejected:  # the edit has its own file at that path
        return Execution(exit_code=None, output=str(rejected), seconds=0, ending=Ending.EXIT)


async def substitute_candidate(
    chosen: Selection, at: int, *, test: Reproduction, by: str, issue: Issue, workspace: Workspace
) -> Selection:
    """Select candidate `at` of the same table, requested by the person `by`.

    `test` is the reproduction test with its result for that edit (`try_others.run_reproduction`).
    The repository's own tests run with the edit, unless their results are saved. The evidence is
    only about this edit.

    Raises:
        SandboxUnavailable: no container could be started or reached.
    """
    proof = chosen.evidence
    candidate = proof.votes.candidates[at]
    letter = assign_letters(proof.votes, proof.order)[at]
    options = workspace.options
    results = SuiteResults(RegressionSuite(workspace), workspace)
    (report,) = await results.run(proof.votes, [at])
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
        suite_problem="" if report else results.reports[candidate.patch.diff].problem,
        title=f"Put in edit {letter}, as @{by} asked",
        cause=_describe_cause(proof, candidate),
        change=_describe_substitute(proof, letter, candidate, by, report),
        described=False,
        why=f"{by} chose edit {letter}.",
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


def _describe_substitute(
    proof: Evidence, letter: str, candidate: Candidate, by: str, report: SuiteReport | None
) -> str:
    files = _list_changed_files(proof.votes, candidate)
    text = (
        f"This is edit {letter}, which {by} requested in place of the one I had chosen. It changes "
        f"{files}."
    )
    if report and report.broken:
        text += f" It breaks {len(report.broken)} of this repository's own tests."
    return text


def _describe_cause(proof: Evidence, candidate: Candidate) -> str:
    """What its own sample said of the edit; else, marked as such, what was said of the first."""
    said, _, _ = candidate.summary.rpartition("Record: ")
    if said.strip():
        return f"The model that wrote this edit said: {said.strip()}"
    return (
        f"No model has described this edit. Of the one that I had chosen it was said: {proof.cause}"
    )


def _list_changed_files(votes: VoteTable, candidate: Candidate) -> str:
    paths = suspect_files(replace(votes, candidates=(candidate,)))[:10]
    return ", ".join(f"`{path}`" for path in paths) or "tests and documents only"


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
        suite_problem=edits.suite_problem
        if rank == 0
        else "They were not run with this edit, or did not finish.",
        title=f"Fix: {issue.title}",
        cause="The run ended before a model described this.",
        change=f"This is edit {letter}. It changes {_list_changed_files(edits.votes, candidate)}.",
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
