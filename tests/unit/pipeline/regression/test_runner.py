"""Runs of one command: which is repeated, and which serves another time limit too."""

import json
from pathlib import Path

import pytest

from pipeline.languages.test_command import TestCommand
from pipeline.regression.command import RequestedTests
from pipeline.regression.runner import GRACE_SECONDS, TestRunner
from pipeline.store import DirStore, Store
from sandbox.program import Execution, Program
from tests.support.fakes import format_section
from tests.support.sandboxes import WithoutCommands

COMMAND = TestCommand(argv=("make", "test"), kind="other", source="configuration")


class Clocked(WithoutCommands):
    """A sandbox in which the tests take these seconds; notes the limit of each run."""

    def __init__(self, cpu: float | None, wall: float, *, hang: bool = False) -> None:
        self.limits: list[float] = []
        self._cpu = cpu
        self._wall = wall
        self._hang = hang

    async def run(self, program: Program) -> Execution:
        assert program.seconds is not None
        self.limits.append(program.seconds - GRACE_SECONDS)
        code = None if self._hang else 0
        limit = "idle" if self._hang else ""
        end = {"code": code, "timeout": self._hang, "limit": limit, "began": 0.0}
        assert program.watch is not None
        mark = program.watch.mark.rstrip(":")
        output = format_section(mark, "records", b"")
        output += format_section(mark, "end", json.dumps(end).encode())
        return Execution(
            exit_code=128 if self._hang else 0,
            output=output,
            seconds=self._wall,
            cpu_seconds=self._cpu,
        )


async def run_with_limits(store: Store, sandbox: Clocked, *limits: float) -> None:
    runs = [
        await TestRunner(COMMAND, sandbox=sandbox, store=store, seconds=limit).run("")
        for limit in limits
    ]
    assert len({run.suite.execution.seconds for run in runs}) == 1


async def test_a_run_that_stays_below_two_limits_serves_both(tmp_path: Path) -> None:
    sandbox = Clocked(cpu=3, wall=4)
    await run_with_limits(DirStore(tmp_path), sandbox, 60, 25, 120)
    assert sandbox.limits == [60]


@pytest.mark.parametrize(
    "sandbox",
    [
        Clocked(cpu=30, wall=31),
        Clocked(cpu=1, wall=31),  # a shorter limit would end it as idle
        Clocked(cpu=None, wall=1),  # nobody measured what it used
    ],
    ids=["works long", "waits long", "unmeasured"],
)
async def test_a_run_that_another_limit_would_change_is_repeated(
    tmp_path: Path, sandbox: Clocked
) -> None:
    await run_with_limits(DirStore(tmp_path), sandbox, 60, 25, 60, 25)
    assert sandbox.limits == [60, 25]


async def test_a_run_that_a_limit_ended_says_nothing_of_another_limit(tmp_path: Path) -> None:
    sandbox = Clocked(cpu=1, wall=2, hang=True)
    await run_with_limits(DirStore(tmp_path), sandbox, 25, 60, 25, 60)
    assert sandbox.limits == [25, 60]


async def test_the_same_files_in_another_order_are_the_same_run(tmp_path: Path) -> None:
    sandbox = Clocked(cpu=3, wall=4)
    runner = TestRunner(COMMAND, sandbox=sandbox, store=DirStore(tmp_path), seconds=60)
    runs = [
        await runner.run("", RequestedTests(files=files))
        for files in (("tests/a.py", "tests/b.py"), ("tests/b.py", "tests/a.py"), ("tests/a.py",))
    ]
    assert runs[0] == runs[1]
    assert len(sandbox.limits) == 2
