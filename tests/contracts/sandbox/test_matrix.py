"""Every test on every edit, streamed, with equal pairs run once."""

import asyncio
from contextlib import aclosing

import docker
import pytest

from sandbox.docker.docker_engine import DockerEngine
from sandbox.errors import PatchRejected, SandboxUnavailable
from sandbox.execution.session import SandboxSession
from sandbox.execution.warm_pool import ConfiguredMode
from sandbox.program import Execution, Program
from tests.support.docker import PACKAGE_FIX, containers_of, wait_until_idle, wait_until_started
from tests.support.matrix import run_matrix

ASK = "import shop, sys; sys.exit(shop.total(1, 2) != 3)"
NOW = "import time; print(time.time_ns())"


def output(run: Execution | PatchRejected) -> str:
    assert isinstance(run, Execution)
    return run.output


async def test_each_cell_is_reported_once_with_its_own_edit(sandbox: SandboxSession) -> None:
    edits = [(), (PACKAGE_FIX,), ("nonsense",)]
    cells = {(c.edit, c.test): c.run async for c in run_matrix(sandbox, edits, [ASK, NOW])}
    assert len(cells) == 6
    base, fixed, rejected = (cells[edit, 0] for edit in range(3))
    assert isinstance(base, Execution)
    assert base.exit_code == 1
    assert isinstance(fixed, Execution)
    assert fixed.passed
    assert isinstance(rejected, PatchRejected)
    assert isinstance(cells[2, 1], PatchRejected)


async def test_equal_pairs_run_once_and_come_together(sandbox: SandboxSession) -> None:
    found = [c async for c in run_matrix(sandbox, [(), (PACKAGE_FIX,), ()], [NOW, NOW])]
    texts = {(c.edit, c.test): output(c.run) for c in found}
    assert len(found) == 6
    assert len({texts[e, t] for e in (0, 2) for t in (0, 1)}) == 1
    assert texts[1, 0] == texts[1, 1] != texts[0, 0]


async def test_fast_cells_do_not_wait_for_slow_ones(sandbox: SandboxSession) -> None:
    async with aclosing(
        run_matrix(sandbox, [()], ["import time; time.sleep(1000)", "pass"], seconds=600)
    ) as cells:
        first = await anext(cells)
        assert first.test == 1


async def test_leaving_early_stops_what_runs(
    own_sandbox: SandboxSession, daemon: docker.APIClient, run_id: str, mode: ConfiguredMode
) -> None:
    tests = ["pass", "import time; time.sleep(1000)"]
    async with aclosing(run_matrix(own_sandbox, [()], tests)) as cells:
        await anext(cells)
    left = containers_of(daemon, run_id)
    assert mode == "warm" or left == []
    for container in left:
        await wait_until_idle(daemon, container)


async def test_cancelling_who_iterates_stops_what_runs(
    own_sandbox: SandboxSession, daemon: docker.APIClient, run_id: str
) -> None:
    async def iterate() -> None:
        async with aclosing(
            run_matrix(own_sandbox, [()], ["import time; time.sleep(1000)"])
        ) as cells:
            async for _ in cells:
                pass

    iterating = asyncio.create_task(iterate())
    await wait_until_started(daemon, run_id)
    iterating.cancel()
    with pytest.raises(asyncio.CancelledError):
        await iterating
    async with asyncio.timeout(120):
        assert (await own_sandbox.run(Program(["true"]))).passed


async def test_a_failing_sandbox_ends_the_iteration(engine: DockerEngine) -> None:
    async with engine.open("capuchin/tree:never-made", run_id="test-gone") as sandbox:
        with pytest.raises(SandboxUnavailable):
            async for _ in run_matrix(sandbox, [()], ["pass", "1"]):
                pass


async def test_an_empty_matrix_reports_nothing(sandbox: SandboxSession) -> None:
    assert [c async for c in run_matrix(sandbox, [], ["pass"])] == []
    assert [c async for c in run_matrix(sandbox, [()], [])] == []
