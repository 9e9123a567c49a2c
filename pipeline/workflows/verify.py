"""The reproduction test, again and again, on the code as it is and with a change; no model."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Literal

from pipeline.codebase.commit import Codebase
from pipeline.concurrency import gather_all
from pipeline.edits.patches import create_patch
from pipeline.types import Frozen
from sandbox.base import Execution, Sandbox
from sandbox.program import Program, repeat_environment

VerificationVerdict = Literal["shown", "flaky", "passes without", "fails with"]


class Verification(Frozen):
    """What a test did on both sides, each `times` times in a fresh checkout."""

    path: str
    command: tuple[str, ...]
    before: tuple[Execution, ...]
    """Without the change."""
    after: tuple[Execution, ...]
    """With it."""

    @property
    def verdict(self) -> VerificationVerdict:
        """`shown`: it always fails without and always passes with the change."""
        if len({_kind(run) for run in self.before}) > 1 or len({_kind(r) for r in self.after}) > 1:
            return "flaky"
        if not self.after[0].passed:
            return "fails with"
        return "passes without" if _kind(self.before[0]) != "fails" else "shown"


async def verify(
    codebase: Codebase,
    changes: Mapping[str, bytes | None],
    *,
    test: str,
    command: Sequence[str],
    sandbox: Sandbox,
    times: int,
    seconds: float,
) -> Verification:
    """Run the test file `test`, which is among `changes` or in `codebase`.

    `sandbox` holds `codebase`; `changes` as in `create_patch`. Raises what the sandbox raises.
    """
    after = await _create_diffs(codebase, changes)
    alone = {test: changes[test]} if test in changes else {}
    before = await _create_diffs(codebase, alone)
    runs = await gather_all(
        sandbox.run(Program(command, diffs=diffs, seconds=seconds, env=repeat_environment(number)))
        for diffs in (before, after)
        for number in range(times)
    )
    return Verification(
        path=test,
        command=tuple(command),
        before=tuple(runs[:times]),
        after=tuple(runs[times:]),
    )


async def _create_diffs(codebase: Codebase, changes: Mapping[str, bytes | None]) -> tuple[str, ...]:
    diff = (await create_patch(codebase, changes)).diff if changes else ""
    return (diff,) if diff else ()


def _kind(run: Execution) -> str:
    """A test that does not end, or is not run at all, says nothing of the issue."""
    if run.passed:
        return "passes"
    return "fails" if run.exit_code in (1, 2) else "breaks"
