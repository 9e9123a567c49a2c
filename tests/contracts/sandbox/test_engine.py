"""The engine around the sandboxes: health, leftovers, cancellation, a host that dies."""

from __future__ import annotations

import asyncio
import contextlib
import subprocess
import sys
from collections.abc import AsyncIterator
from pathlib import Path

import docker
import pytest
from docker.errors import NotFound

from sandbox.base import PatchRejected, SandboxUnavailable
from sandbox.daemon import LABEL_OWNER, LABEL_RUN
from sandbox.docker import DockerEngine, DockerSandbox
from tests.docker import OWNER, containers_of, make_tree, until_started

SLEEP = ["sleep", "1000"]


@pytest.fixture
async def nowhere(tmp_path: Path) -> AsyncIterator[DockerEngine]:
    """An engine whose daemon is not there."""
    engine = DockerEngine(docker_url=f"unix://{tmp_path}/docker.sock")
    yield engine
    await engine.close()


async def test_a_working_docker_tells_its_version(engine: DockerEngine) -> None:
    assert (await engine.check()).startswith("Docker ")


async def test_docker_down_is_said_in_a_sentence_with_the_mend(
    nowhere: DockerEngine, tmp_path: Path
) -> None:
    with pytest.raises(SandboxUnavailable, match=r"Install and start Docker"):
        await nowhere.check()
    with pytest.raises(SandboxUnavailable):
        await nowhere.prepare(make_tree(tmp_path / "tree", {"a.py": ""}))
    with pytest.raises(SandboxUnavailable):
        await nowhere.reap(live_runs=())
    async with nowhere.open("capuchin/tree:any", run_id="r") as sandbox:
        with pytest.raises(SandboxUnavailable, match="no daemon answers"):
            await sandbox.run_script("print()")


async def test_docker_that_goes_away_during_a_run_is_no_execution(
    sandbox: DockerSandbox, daemon: docker.APIClient, run_id: str
) -> None:
    """Seen from here, a container taken away by force is the same as a daemon that restarts."""
    running = asyncio.create_task(sandbox.run_command(SLEEP))
    daemon.remove_container(await until_started(daemon, run_id), force=True)
    with pytest.raises(SandboxUnavailable):
        await running


async def test_cancelling_a_run_takes_its_container_along(
    sandbox: DockerSandbox, daemon: docker.APIClient, run_id: str
) -> None:
    running = asyncio.create_task(sandbox.run_script("import time; time.sleep(1000)"))
    await until_started(daemon, run_id)
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    assert containers_of(daemon, run_id) == []


async def test_a_script_still_wanted_by_another_survives_a_cancellation(
    sandbox: DockerSandbox, daemon: docker.APIClient, run_id: str
) -> None:
    script = "import time; time.sleep(2); print('done')"
    first = asyncio.create_task(sandbox.run_script(script))
    second = asyncio.create_task(sandbox.run_script(script))
    await until_started(daemon, run_id)
    first.cancel()
    assert (await second).output == "done\n"


async def test_leaving_the_block_stops_what_runs(
    engine: DockerEngine, prepared: str, daemon: docker.APIClient, run_id: str
) -> None:
    async with engine.open(prepared, run_id=run_id) as sandbox:
        running = asyncio.create_task(sandbox.run_command(SLEEP))
        await until_started(daemon, run_id)
    assert containers_of(daemon, run_id) == []
    with pytest.raises(asyncio.CancelledError):
        await running


async def test_a_rejected_diff_can_be_asked_again(sandbox: DockerSandbox) -> None:
    for _ in range(2):
        with pytest.raises(PatchRejected):
            await sandbox.run_script("print()", diffs=["nonsense"])


async def test_reaping_removes_our_containers_of_dead_runs_only(
    engine: DockerEngine, prepared: str, daemon: docker.APIClient, run_id: str
) -> None:
    dead, live, foreign = (f"{run_id}-{name}" for name in ("dead", "live", "foreign"))
    for run, owner in ((dead, OWNER), (live, OWNER), (foreign, "somebody else")):
        daemon.create_container(prepared, labels={LABEL_RUN: run, LABEL_OWNER: owner})
    try:
        assert await engine.reap(live_runs=[live], older_than=600) == 0
        assert await engine.reap(live_runs=[live]) == 1
        left = [len(containers_of(daemon, run)) for run in (dead, live, foreign)]
        assert left == [0, 1, 1]
    finally:
        for run in (live, foreign):
            daemon.remove_container(containers_of(daemon, run)[0])


HOST = """
import asyncio, sys
from sandbox.docker import DockerEngine
async def main():
    async with DockerEngine().open(sys.argv[1], run_id=sys.argv[2]) as sandbox:
        await sandbox.run_command(["sleep", "1000"])
asyncio.run(main())
"""


async def test_what_ran_for_a_host_that_was_killed_ends_by_itself(
    engine: DockerEngine, prepared: str, daemon: docker.APIClient, run_id: str
) -> None:
    host = subprocess.Popen([sys.executable, "-c", HOST, prepared, run_id])
    try:
        container = await until_started(daemon, run_id)
    finally:
        host.kill()
        host.wait()
    try:
        assert daemon.wait(container, timeout=20)["StatusCode"] != 0
    finally:
        with contextlib.suppress(NotFound):
            daemon.remove_container(container, force=True)


def test_an_index_with_a_password_is_refused() -> None:
    with pytest.raises(ValueError, match="credentials"):
        DockerEngine(index_url="https://me:secret@pypi.example.org/simple")
