"""Memory, output and disk without end."""

import asyncio
from datetime import datetime, timedelta
from typing import Any, cast

import docker
import pytest

from sandbox.docker.docker_engine import DockerEngine
from sandbox.execution.warm_pool import ConfiguredMode
from sandbox.frozen import replace
from sandbox.program import Ending, python_script
from tests.support.attack_scripts import MEMORY_BOMBS
from tests.support.docker import Execute, wait_until_started
from tests.support.own_docker_daemon import OwnDaemon
from tests.support.texts import texts_of

TEXTS = texts_of(__file__)


@pytest.mark.parametrize("name", MEMORY_BOMBS)
async def test_too_much_memory_is_called_that(execute: Execute, name: str) -> None:
    run = await execute(MEMORY_BOMBS[name])
    if name == "a file without a name" and run.ending is Ending.KILLED:
        assert run.exit_code is None  # by the limit of a file's size
    elif name == "a file without a name" and run.ending is Ending.EXIT:
        assert "File too large" in run.output
    else:
        assert (run.ending, run.exit_code) == (Ending.MEMORY, None)


@pytest.mark.parametrize("stream", [1, 2])
async def test_endless_output_is_cut(
    execute: Execute, mode: ConfiguredMode, stream: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Without the limit of output, the host's clock would end it before its processor time does.
    monkeypatch.setattr("sandbox.program.WALL_FACTOR", 0)
    monkeypatch.setattr("sandbox.program.WALL_MARGIN", 60)
    flood = f"import os\nwhile True: os.write({stream}, b'x' * 65536)"
    run = await execute(flood, seconds=300 if mode == "cold" else 10)
    assert (run.ending, run.exit_code) == (Ending.OUTPUT, None)
    assert "bytes of output left out here" in run.output
    assert len(run.output) < 70_000


async def test_disks_have_an_end(execute: Execute) -> None:
    run = await execute(TEXTS["DISKS"])
    assert run.output == "28 True\n" * 3


async def test_inodes_have_an_end(execute: Execute) -> None:
    run = await execute(TEXTS["INODES"])
    assert run.output == "28 True\n200000\n"


async def test_a_sparse_file_fools_nobody(execute: Execute) -> None:
    run = await execute(TEXTS["SPARSE_FILE"])
    assert run.output == "0\n28\n"


async def test_an_archive_that_unpacks_without_end_fills_only_its_own_disk(
    execute: Execute,
) -> None:
    run = await execute(TEXTS["ARCHIVE"])
    assert run.output == "28\n"


async def test_a_file_has_a_largest_size(execute: Execute, mode: ConfiguredMode) -> None:
    if mode == "cold":
        pytest.skip("in a container of its own the disk alone is the limit")
    run = await execute(TEXTS["LARGEST_FILE"])
    assert run.output == "27\n"


async def test_it_gets_no_more_than_its_share_of_the_processors(
    engine: DockerEngine,
    prepared: str,
    run_id: str,
    daemon: docker.APIClient,
    monkeypatch: pytest.MonkeyPatch,
    gvisor: OwnDaemon | None,
) -> None:
    """For any number of processes, as the host's kernel counts it."""
    monkeypatch.setattr(engine, "limits", replace(engine.limits, cpus=0.5))
    spin = """
import os, time
for _ in range(3): os.fork()
while True: pass
"""

    def seen(container: str) -> tuple[datetime, float, int]:
        """The time, processor seconds until then, and periods in which they were throttled."""
        stats = cast(dict[str, Any], daemon.stats(container, stream=False, one_shot=True))
        usage: dict[str, Any] = stats["cpu_stats"]
        return (
            datetime.fromisoformat(stats["read"]),  # the daemon's time: our answer may be late
            usage["cpu_usage"]["total_usage"] / 1e9,
            usage["throttling_data"]["periods"],
        )

    async with engine.open(prepared, run_id=run_id) as sandbox:
        running = asyncio.create_task(sandbox.run(python_script(spin, seconds=120)))
        container = await wait_until_started(daemon, run_id)
        await asyncio.sleep(0.5)  # until it spins
        first = last = await asyncio.to_thread(seen, container)
        # On a busy machine it would get no more anyway, but nobody would count periods. Of gVisor
        # Docker tells none.
        while last[0] - first[0] < timedelta(seconds=3) or not (gvisor or last[2]):
            await asyncio.sleep(0.8)
            assert not running.done()
            last = await asyncio.to_thread(seen, container)
            assert last[0] - first[0] < timedelta(seconds=60), "it is not throttled"
        running.cancel()
        await asyncio.wait([running])
    assert (last[1] - first[1]) / (last[0] - first[0]).total_seconds() < 0.75


async def test_handles_and_core_dumps_are_limited(execute: Execute) -> None:
    run = await execute(TEXTS["HANDLES"])
    assert run.output == "(0, 0)\n24\nTrue\n"
