"""Whether a script tells edits apart so that it counts: steadily, and by what the edits do."""

from __future__ import annotations

import difflib
from collections.abc import Sequence
from typing import NamedTuple

from pipeline.concurrency import gather_all
from pipeline.selection.mutants import spoil
from sandbox.base import Execution, Sandbox
from sandbox.errors import PatchRejected
from sandbox.program import python_script, repeat_environment

_VERDICTS = (0, 2)


class Fault(NamedTuple):
    """Why a script counts for nothing."""

    sentence: str
    unnoticed: str = ""
    """How a line of an edit was spoilt without being noticed, as lines of a diff. Untrusted."""


class Separation:
    """Weighs the scripts of a selection by further runs."""

    def __init__(self, sandbox: Sandbox, seconds: float) -> None:
        self._sandbox = sandbox
        self._seconds = seconds

    async def find_fault(
        self, script: str, diffs: Sequence[str], base: Execution, runs: Sequence[Execution]
    ) -> Fault | None:
        """Why `script` counts for nothing; None if it counts.

        `runs`: how it ended on each of `diffs`, `base`: without any. It counts if it passes with
        one edit and reports the issue with another, or without any; if it ends the same when it is
        repeated; and if it notices one of the small faults that an edit it passes can be given.
        """
        ends = [run.exit_code for run in runs]
        if any(end not in _VERDICTS for end in ends):
            return Fault("It does not come to a verdict on every candidate.")
        if len(set(ends)) < 2:
            return Fault("It tells no candidates apart: it ends the same with every one.")
        again = await self._run_all(script, ("", *diffs), repeat=True)
        if again != [base.exit_code, *ends]:
            return Fault("It does not always end the same, so it shows nothing.")
        passed = next(diff for diff, end in zip(diffs, ends, strict=True) if end == 0)
        mutants = spoil(passed)
        spoilt = await self._run_all(script, mutants) if mutants else [base.exit_code]
        if all(end in (0, None) for end in spoilt):
            unnoticed = next(
                (one for one, end in zip(mutants, spoilt, strict=True) if end == 0), ""
            )
            return Fault(
                "It passes as well where a line of the edit that it passes is spoilt or missing. "
                "Add a case that notices.",
                _show_difference(passed, unnoticed) if unnoticed else "",
            )
        return None

    async def _run_all(
        self, script: str, diffs: Sequence[str], *, repeat: bool = False
    ) -> list[int | None]:
        """Exit codes; None where a diff does not apply or the script was killed."""

        async def run(diff: str) -> int | None:
            program = python_script(
                script,
                diffs=(diff,) if diff else (),
                seconds=self._seconds,
                env=repeat_environment(1) if repeat else {},
            )
            try:
                return (await self._sandbox.run(program)).exit_code
            except PatchRejected:
                return None

        return await gather_all(run(diff) for diff in diffs)


def _show_difference(diff: str, spoilt: str) -> str:
    """The lines of `diff` that are others, or missing, in `spoilt`, without their own signs."""
    lines = difflib.unified_diff(diff.split("\n"), spoilt.split("\n"), n=0, lineterm="")
    heads = ("---", "+++")
    changes = [
        line
        for line in lines
        if line[:2] in ("-+", "++", "--") and not line.startswith(heads) and line[1:4] not in heads
    ]
    return "\n".join(line[0] + line[2:] for line in changes)
