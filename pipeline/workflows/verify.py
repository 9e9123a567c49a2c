"""Repeats the reproduction test on the unedited code and with a change, without a model."""

from collections.abc import Mapping, Sequence
from typing import Literal

from pipeline.concurrency import gather_all
from pipeline.data.suite_reports import TestOutcome
from pipeline.edits.patches import create_patch
from pipeline.languages.registry import read_test_outcome
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
        before, after = self.outcomes_before, self.outcomes_after
        if len({*before}) > 1 or len({*after}) > 1:
            return "flaky"
        runs = (self.before[0], before[0]), (self.after[0], after[0])
        # A test that hangs counts as run.
        if any(run.ending is Ending.EXIT and outcome == "not run" for run, outcome in runs):
            return "not run"
        if after[0] != "passes":
            return "fails with"
        return "shown" if before[0] == "fails" else "passes without"

    @property
    def outcomes_before(self) -> list[TestOutcome]:
        return [read_test_outcome(self.path, run) for run in self.before]

    @property
    def outcomes_after(self) -> list[TestOutcome]:
        return [read_test_outcome(self.path, run) for run in self.after]


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
        path=test, command=tuple(command), before=tuple(runs[:times]), after=tuple(runs[times:])
    )
