"""Repeats the reproduction test on the unedited code and with a change, without a model."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Literal

from pipeline.concurrency import gather_all
from pipeline.data.suite_reports import read_test_outcome
from pipeline.edits.patches import create_patch
from pipeline.resources import Workspace
from sandbox.frozen import Frozen
from sandbox.program import Ending, Execution, repeat_environment

VerificationVerdict = Literal["shown", "flaky", "passes without", "fails with", "not run"]


class Verification(Frozen):
    """A test's results on both sides, each `times` times in a fresh checkout."""

    path: str
    """The test file; empty if the command runs a script."""
    command: tuple[str, ...]
    before: tuple[Execution, ...]
    after: tuple[Execution, ...]
    broken: tuple[str, ...] = ()
    """The tests near the change that pass without it, but not with it, as far as that was asked."""

    @property
    def verdict(self) -> VerificationVerdict:
        """`shown`: it always fails without the change and always passes with it.

        `not run`: on one side, the test's own runner reached no verdict.
        """
        if (
            len({read_test_outcome(run) for run in self.before}) > 1
            or len({read_test_outcome(r) for r in self.after}) > 1
        ):
            return "flaky"
        if _is_not_run(self.before[0]) or _is_not_run(self.after[0]):
            return "not run"
        if not self.after[0].passed:
            return "fails with"
        return "passes without" if read_test_outcome(self.before[0]) != "fails" else "shown"


async def verify(
    workspace: Workspace,
    changes: Mapping[str, bytes | None],
    *,
    test: str,
    test_files: Sequence[str],
    command: Sequence[str],
    times: int,
) -> Verification:
    """Run the test file `test`, which is in `changes` or `codebase`.

    The side without the change contains only the `test_files` among `changes`, which have the form
    that `create_patch` takes. Errors of the sandbox propagate.
    """
    alone = {path: changes[path] for path in test_files if path in changes}
    after, before = [
        (await create_patch(workspace.codebase, files)).diff if files else ""
        for files in (changes, alone)
    ]
    runs = await gather_all(
        workspace.run(command, diff, env=repeat_environment(number))
        for diff in (before, after)
        for number in range(times)
    )
    return Verification(
        path=test,
        command=tuple(command),
        before=tuple(runs[:times]),
        after=tuple(runs[times:]),
    )


def _is_not_run(run: Execution) -> bool:
    """Whether the runner ended without a verdict; a test that hangs counts as run."""
    return run.ending is Ending.EXIT and read_test_outcome(run) == "not run"
