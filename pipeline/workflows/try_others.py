"""Runs the reproduction test with each edit of a run, to find possible replacements."""

from __future__ import annotations

from pipeline.concurrency import gather_bounded
from pipeline.edits.unified_diff import list_paths, remove_files
from pipeline.options import Options
from pipeline.resources import Resources
from pipeline.selection.letters import rank_result
from pipeline.types import (
    Candidate,
    Reproduction,
    Selection,
    TestOutcome,
    read_test_outcome,
    replace,
)
from sandbox.base import Ending, Execution, Sandbox
from sandbox.errors import PatchRejected
from sandbox.program import Program

MAX_TRIED = 10
_CONCURRENCY = 4


async def try_others(chosen: Selection, resources: Resources) -> Selection:
    """Add the results of the reproduction test with the other edits to the evidence of `chosen`.

    At most `MAX_TRIED` edits are tried, best first, each once; none when the time is over.

    Raises:
        SandboxUnavailable: no container could be started or reached.
    """
    proof = chosen.evidence
    late = resources.clock.seconds_left("reproduction") <= 0
    if late or not proof.reproduction.is_committed:
        return chosen
    edits, sandbox, options = proof.votes.candidates, resources.sandbox, resources.options
    diffs = [edits[c].patch.diff for c in rank_result(chosen)[:MAX_TRIED]]
    others = [diff for diff in diffs if diff != chosen.candidate.patch.diff]
    runs = await gather_bounded(
        _CONCURRENCY,
        (
            run_reproduction(proof.reproduction, Candidate(sample=0, patch=edit), sandbox, options)
            for diff in others
            for edit in [next(one.patch for one in edits if one.patch.diff == diff)]
        ),
    )
    known: dict[str, TestOutcome] = {
        diff: read_test_outcome(run) for diff, run in zip(others, runs, strict=True)
    }
    known[chosen.candidate.patch.diff] = read_test_outcome(proof.reproduction.after)
    reproduced = tuple(known.get(one.patch.diff) for one in edits)
    return replace(chosen, evidence=replace(proof, reproduced=reproduced))


async def run_reproduction(
    test: Reproduction, candidate: Candidate, sandbox: Sandbox, options: Options
) -> Execution:
    """Run the reproduction test with `candidate`; the result has no exit code if it does not
    apply."""
    # The test's version of a file wins: an edit may contain its own tests.
    rest = remove_files(candidate.patch.diff, list_paths(test.diff))
    diffs = tuple(filter(None, (test.diff, rest)))
    try:
        return await sandbox.run(
            Program(test.command, diffs=diffs, seconds=options.execution_seconds)
        )
    except PatchRejected as rejected:  # the edit has its own file at that path
        return Execution(exit_code=None, output=str(rejected), seconds=0, ending=Ending.EXIT)
