"""What a sandbox does: it runs a program in a fresh checkout and reports how the program ended.

`Program` (in `program.py`) is what goes in; the exceptions are in `errors.py`.
"""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING, Protocol

from sandbox.frozen import Frozen
from sandbox.program import Program

if TYPE_CHECKING:
    from sandbox.command_run import CommandRun


class Ending(StrEnum):
    """How an execution ended, as seen from outside the process that ran."""

    EXIT = "exit"
    TIMEOUT = "timeout"
    MEMORY = "memory"
    OUTPUT = "output limit"
    KILLED = "killed"
    """By a signal that the sandbox did not send."""


class Execution(Frozen):
    """What one run of one program printed, and how it ended."""

    exit_code: int | None
    """None unless the program ended by itself (`ending` is EXIT)."""
    output: str
    """Standard output and error interleaved, decoded as UTF-8 with replacement, the middle cut."""
    seconds: float
    """Of wall time."""
    ending: Ending = Ending.EXIT
    limit: str = ""
    """Which limit a TIMEOUT met: `processor time`, `idle` (it did nothing), `wall time`; empty
    where that is not known."""
    cpu_seconds: float | None = None
    """Processor time of all its processes; None where it was not measured."""
    peak_memory_mb: float | None = None
    """Largest resident memory of its largest process; None where it was not measured."""

    @property
    def passed(self) -> bool:
        return self.exit_code == 0


class Sandbox(Protocol):
    """One repository at one commit, installed. Every program runs in a fresh checkout of it."""

    async def run(self, program: Program) -> Execution:
        """Run `program` from the checkout's root; its own failure is data in the `Execution`.

        Raises:
            PatchRejected: a diff does not apply; nothing was run.
            SandboxUnavailable: the program could not be started, or its end is unknown.
        """
        ...

    async def run_command(self, program: Program) -> CommandRun:
        """As `run`, and report what the checkout then holds; see `CommandRun`."""
        ...
