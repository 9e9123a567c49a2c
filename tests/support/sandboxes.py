"""Sandboxes that run nothing."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from sandbox.base import NO_ENV, Execution
from tests.support.data.publishing import PASSES


class PassingSandbox:
    """Every test command passes; no script may be run."""

    async def run_script(
        self,
        script: str,
        *,
        diffs: Sequence[str] = (),
        seconds: float | None = None,
        env: Mapping[str, str] = NO_ENV,
    ) -> Execution:
        raise AssertionError((script, diffs, seconds))

    async def run_command(
        self,
        argv: Sequence[str],
        *,
        diffs: Sequence[str] = (),
        seconds: float | None = None,
        output_bytes: int | None = None,
        env: Mapping[str, str] = NO_ENV,
    ) -> Execution:
        assert argv[0] == "python", (diffs, seconds, output_bytes)
        return PASSES


class FailingSandbox:
    """A sandbox in which every script reports the issue."""

    async def run_script(self, script: str, **_: object) -> Execution:
        return Execution(exit_code=2, output="", seconds=0)

    async def run_command(self, argv: object, **_: object) -> Execution:
        raise AssertionError("only scripts are run")


Asked = list[tuple[str, tuple[str, ...]]]


@dataclass
class TableSandbox:
    """Looks exit codes up by script and edit."""

    codes: dict[tuple[str, str], int]
    asked: Asked = field(default_factory=Asked)
    output: str = ""
    running: int = 0
    most_running: int = 0

    async def run_script(
        self,
        script: str,
        *,
        diffs: Sequence[str] = (),
        seconds: float | None = None,
        env: Mapping[str, str] = NO_ENV,
    ) -> Execution:
        self.asked.append((script, tuple(diffs)))
        self.running += 1
        self.most_running = max(self.most_running, self.running)
        await asyncio.sleep(0)
        self.running -= 1
        code = self.codes.get((script, "".join(diffs)), 1)
        return Execution(exit_code=code, output=self.output, seconds=0)

    async def run_command(
        self,
        argv: Sequence[str],
        *,
        diffs: Sequence[str] = (),
        seconds: float | None = None,
        output_bytes: int | None = None,
        env: Mapping[str, str] = NO_ENV,
    ) -> Execution:
        raise AssertionError("no command is run for votes")
