"""READ 5th: what a sandbox does.

`Program` (in `program.py`) is what goes in; the exceptions are in `errors.py`.
"""

from typing import Protocol

from sandbox.program import CommandRun, Execution, Program


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
