"""Sandboxes that run nothing."""

import asyncio
from dataclasses import dataclass, field
from pathlib import Path

from pipeline.codebase.commit import Codebase
from pipeline.data.options import Options
from pipeline.data.types import CommitSha
from pipeline.resources import Workspace
from pipeline.store import DirStore, Store
from sandbox.base import Sandbox
from sandbox.program import CommandRun, Execution, Program
from tests.support.data.publishing import PASSES


def bare_workspace(sandbox: Sandbox, store: Path | Store) -> Workspace:
    """A workspace without a file of code; `store` may be a folder."""
    kept = DirStore(store) if isinstance(store, Path) else store
    return Workspace(sandbox, Codebase(Path(), CommitSha(""), {}), kept, Options())


class WithoutCommands:
    """The part of a sandbox that nobody may use."""

    async def run_command(self, program: Program) -> CommandRun:
        raise AssertionError(program)


class PassingSandbox(WithoutCommands):
    """Every test command passes; nothing else may be run."""

    async def run(self, program: Program) -> Execution:
        assert program.argv[0] == "python", program
        return PASSES


class FailingSandbox(WithoutCommands):
    """A sandbox in which every script reports the issue."""

    async def run(self, program: Program) -> Execution:
        assert program.script, "only scripts are run"
        return Execution(exit_code=2, output="", seconds=0)


Asked = list[tuple[str, tuple[str, ...]]]


@dataclass
class TableSandbox(WithoutCommands):
    """Looks exit codes up by script and edit."""

    codes: dict[tuple[str, str], int]
    asked: Asked = field(default_factory=Asked)
    output: str = ""
    running: int = 0
    most_running: int = 0

    async def run(self, program: Program) -> Execution:
        assert program.script is not None, "no command is run for votes"
        self.asked.append((program.script, tuple(program.diffs)))
        self.running += 1
        self.most_running = max(self.most_running, self.running)
        await asyncio.sleep(0)
        self.running -= 1
        code = self.codes.get((program.script, "".join(program.diffs)), 1)
        return Execution(exit_code=code, output=self.output, seconds=0)
