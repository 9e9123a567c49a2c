"""Gathers the evidence of the checks in a sandbox that holds the issue's base commit."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence

from pipeline.codebase.commit import Codebase
from pipeline.evaluation.grading import GradedInstance, Grader
from pipeline.generation.testing import NOT_FIXED
from pipeline.learning.records import Attempt, SolvedIssue
from pipeline.options import Options
from pipeline.store import Store, load_or_run
from pipeline.types import Frozen, replace
from sandbox.base import Execution, Sandbox
from sandbox.errors import PatchRejected
from sandbox.program import python_script

_DIGITS = 24


class ExecutedChecks(Frozen):
    """What the executions showed, in the form in which it is saved."""

    red_before: bool | None = None
    green_on_reference: bool | None = None
    passes_script: bool | None = None
    resolved: bool | None = None
    """None: the benchmark's tests did not tell."""


async def execute_checks(
    issue: SolvedIssue,
    attempt: Attempt,
    *,
    codebase: Codebase,
    sandbox: Sandbox,
    store: Store,
    options: Options,
) -> Attempt:
    """`attempt` with the results of its script on the unedited code, on the developers' edit and on
    its own, and of the benchmark's tests where there are any.

    Results are saved in `store`, and equal scripts with equal edits run once.

    Raises as `Sandbox.run`.
    """
    key = f"checks/{_digest(issue.model_dump_json(), attempt.script, attempt.diff)}"
    found = await load_or_run(
        store,
        key,
        ExecutedChecks,
        lambda: _execute(issue, attempt, codebase, sandbox, store, options),
    )
    known = {name: value for name, value in found.model_dump().items() if value is not None}
    return replace(attempt, **known)


async def _execute(
    issue: SolvedIssue,
    attempt: Attempt,
    codebase: Codebase,
    sandbox: Sandbox,
    store: Store,
    options: Options,
) -> ExecutedChecks:
    found = ExecutedChecks()
    if attempt.script:

        async def run(diffs: Sequence[str]) -> Execution | None:
            program = python_script(attempt.script, diffs=diffs, seconds=options.execution_seconds)
            try:
                return await sandbox.run(program)
            except PatchRejected:
                return None

        before = await run(())
        after = await run((issue.reference,))
        own = await run((attempt.diff,)) if attempt.diff else None
        found = replace(
            found,
            red_before=before is not None and before.exit_code == NOT_FIXED,
            green_on_reference=None if after is None else after.passed,
            passes_script=own is not None and own.passed,
        )
    if attempt.resolved is None and attempt.diff and issue.fail_to_pass:
        grader = Grader(_to_instance(issue), codebase, sandbox, store, options)
        grade = await grader.grade(attempt.diff)
        found = replace(found, resolved=None if grade.cannot_tell else grade.resolved)
    return found


def _to_instance(issue: SolvedIssue) -> GradedInstance:
    return GradedInstance.model_validate(
        {
            "instance_id": issue.id,
            "repo": issue.repository,
            "problem_statement": f"{issue.title}\n\n{issue.body}",
            "base_commit": issue.base_commit,
            "patch": issue.reference,
            "test_patch": issue.tests,
            "FAIL_TO_PASS": issue.fail_to_pass,
            "PASS_TO_PASS": issue.pass_to_pass,
        }
    )


def _digest(*parts: str) -> str:
    text = "\0".join(parts).encode("utf-8", "surrogatepass")
    return hashlib.sha256(text).hexdigest()[:_DIGITS]
