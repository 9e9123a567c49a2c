"""The engine around the sandboxes: health, leftovers, cancellation, a host that dies."""

import asyncio
import contextlib
import subprocess
import sys
from collections.abc import AsyncIterator
from pathlib import Path

import docker
import pytest
from docker.errors import APIError, NotFound

from sandbox.docker import warm_container
from sandbox.docker.docker_client import DockerAddress
from sandbox.docker.docker_engine import DockerEngine, DockerOptions
from sandbox.engine import EnvironmentRequest
from sandbox.environment.build_options import BuildOptions
from sandbox.errors import PatchRejected, SandboxUnavailable
from sandbox.execution import warm_pool
from sandbox.execution.session import SandboxSession
from sandbox.execution.warm_pool import ConfiguredMode
from sandbox.layout import LABEL_OWNER, LABEL_RUN
from sandbox.program import SCRIPT_PATH, Program, python_script
from tests.support.docker import (
    OWNER,
    build_environment,
    containers_of,
    make_tree,
    wait_until_idle,
    wait_until_running,
    wait_until_started,
)

SLEEP = ["sleep", "1000"]


@pytest.fixture
async def nowhere(tmp_path: Path) -> AsyncIterator[DockerEngine]:
    """An engine whose daemon is not there."""
    engine = DockerEngine(DockerOptions(address=DockerAddress(f"unix://{tmp_path}/docker.sock")))
    yield engine
    await engine.close()


async def test_a_working_docker_shows_its_version(engine: DockerEngine) -> None:
    assert (await engine.check()).startswith("Docker ")


async def test_docker_down_is_reported_in_a_sentence_with_the_mend(
    nowhere: DockerEngine, tmp_path: Path
) -> None:
    with pytest.raises(SandboxUnavailable, match=r"Install and start Docker"):
        await nowhere.check()
    with pytest.raises(SandboxUnavailable):
        await build_environment(
            nowhere, EnvironmentRequest(make_tree(tmp_path / "tree", {"a.py": ""}))
        )
    with pytest.raises(SandboxUnavailable):
        await nowhere.reap(live_runs=())
    async with nowhere.open("capuchin/tree:any", run_id="r") as sandbox:
        with pytest.raises(SandboxUnavailable, match="no daemon answers"):
            await sandbox.run(python_script("print()"))


async def take_away(daemon: docker.APIClient, run_id: str, container: str) -> None:
    with contextlib.suppress(APIError):  # a lane removes itself at the same time
        daemon.remove_container(container, force=True)
    async with asyncio.timeout(120):
        while container in containers_of(daemon, run_id):
            await asyncio.sleep(0.02)


async def test_docker_that_goes_away_during_a_run_is_no_execution(
    own_sandbox: SandboxSession, daemon: docker.APIClient, run_id: str, mode: ConfiguredMode
) -> None:
    """Seen from here, a container taken away by force is the same as a daemon that restarts."""
    running = asyncio.create_task(own_sandbox.run(Program(SLEEP)))
    for _ in range(2 if mode == "warm" else 1):
        await take_away(daemon, run_id, await wait_until_running(daemon, run_id, " ".join(SLEEP)))
    with pytest.raises(SandboxUnavailable):
        await running
    assert (await own_sandbox.run(Program(["true"]))).passed


async def test_a_container_lost_once_costs_nothing_but_time(
    own_sandbox: SandboxSession, daemon: docker.APIClient, run_id: str, mode: ConfiguredMode
) -> None:
    if mode == "cold":
        pytest.skip("an execution with a container of its own is not repeated")
    assert (await own_sandbox.run(Program(["true"]))).passed
    running = asyncio.create_task(own_sandbox.run(Program(["sh", "-c", "sleep 0.5; echo done"])))
    await take_away(daemon, run_id, await wait_until_started(daemon, run_id))
    assert (await running).output == "done\n"


async def test_cancelling_a_run_leaves_nothing_of_it(
    own_sandbox: SandboxSession,
    daemon: docker.APIClient,
    run_id: str,
    mode: ConfiguredMode,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    # A busy machine may take longer to kill it than the container is given; then that is killed.
    monkeypatch.setattr(warm_pool, "STOP_SECONDS", 600)
    sleep = python_script("import time; time.sleep(1000)", seconds=600)
    running = asyncio.create_task(own_sandbox.run(sleep))
    container = await wait_until_running(daemon, run_id, SCRIPT_PATH)
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        async with asyncio.timeout(300):  # it would go on for twice as long
            await running
    if mode == "cold":
        assert containers_of(daemon, run_id) == []
    else:
        await wait_until_idle(daemon, container)
        assert (await own_sandbox.run(Program(["true"]))).passed
        assert containers_of(daemon, run_id) == [container]


async def test_a_container_that_does_not_stop_in_time_is_killed(
    own_sandbox: SandboxSession,
    daemon: docker.APIClient,
    run_id: str,
    mode: ConfiguredMode,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    if mode == "cold":
        pytest.skip("a container of its own is killed at once")
    # One whose process 1 is stopped uses up both, however long they are.
    monkeypatch.setattr(warm_pool, "STOP_SECONDS", 0.5)
    monkeypatch.setattr(warm_container, "EXIT_SECONDS", 0.5)
    running = asyncio.create_task(own_sandbox.run(python_script("import time; time.sleep(1000)")))
    container = await wait_until_running(daemon, run_id, SCRIPT_PATH)
    daemon.kill(container, "SIGSTOP")  # `pause` fails where the machine is too busy to freeze it
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    assert containers_of(daemon, run_id) == []
    assert (await own_sandbox.run(Program(["true"]))).passed


async def test_a_script_still_wanted_by_another_survives_a_cancellation(
    own_sandbox: SandboxSession, daemon: docker.APIClient, run_id: str
) -> None:
    script = "import time; time.sleep(2); print('done')"
    first = asyncio.create_task(own_sandbox.run(python_script(script)))
    second = asyncio.create_task(own_sandbox.run(python_script(script)))
    await wait_until_started(daemon, run_id)
    first.cancel()
    assert (await second).output == "done\n"


async def test_leaving_the_block_stops_what_runs(
    engine: DockerEngine, prepared: str, daemon: docker.APIClient, run_id: str
) -> None:
    async with engine.open(prepared, run_id=run_id) as sandbox:
        running = asyncio.create_task(sandbox.run(Program(SLEEP)))
        await wait_until_started(daemon, run_id)
    assert containers_of(daemon, run_id) == []
    with pytest.raises(asyncio.CancelledError):
        await running


async def test_a_rejected_diff_can_be_asked_again(sandbox: SandboxSession) -> None:
    for _ in range(2):
        with pytest.raises(PatchRejected):
            await sandbox.run(python_script("print()", diffs=["nonsense"]))


async def test_reaping_removes_our_containers_of_dead_runs_only(
    prepared: str, daemon: docker.APIClient, run_id: str, mode: ConfiguredMode
) -> None:
    ours = f"{OWNER}-reaping"  # those of other tests are in use
    engine = DockerEngine(DockerOptions(owner=ours, mode=mode))
    dead, live, foreign = (f"{run_id}-{name}" for name in ("dead", "live", "foreign"))
    for run, owner in ((dead, ours), (live, ours), (foreign, "somebody else")):
        daemon.create_container(prepared, labels={LABEL_RUN: run, LABEL_OWNER: owner})
    try:
        assert await engine.reap(live_runs=[live], older_than=600) == 0
        assert await engine.reap(live_runs=[live]) == 1
        left = [len(containers_of(daemon, run)) for run in (dead, live, foreign)]
        assert left == [0, 1, 1]
    finally:
        for run in (live, foreign):
            daemon.remove_container(containers_of(daemon, run)[0])
        await engine.close()


HOST = """
import asyncio, sys
from sandbox.docker.docker_engine import DockerEngine
from sandbox.docker.docker_engine import DockerOptions
from sandbox.program import Program
async def main():
    engine = DockerEngine(DockerOptions(mode=sys.argv[3]))
    async with engine.open(sys.argv[1], run_id=sys.argv[2]) as sandbox:
        await sandbox.run(Program(["sleep", "1000"]))
asyncio.run(main())
"""


async def test_what_ran_for_a_host_that_was_killed_ends_by_itself(
    engine: DockerEngine, prepared: str, daemon: docker.APIClient, run_id: str, mode: ConfiguredMode
) -> None:
    host = subprocess.Popen([sys.executable, "-c", HOST, prepared, run_id, mode])
    try:
        container = await wait_until_started(daemon, run_id)
    finally:
        host.kill()
        host.wait()
    try:
        with contextlib.suppress(NotFound):  # a lane is gone altogether
            assert daemon.wait(container, timeout=120)["StatusCode"] != 0
    finally:
        with contextlib.suppress(APIError):
            daemon.remove_container(container, force=True)


def test_an_index_with_a_password_is_refused() -> None:
    with pytest.raises(ValueError, match="credentials"):
        BuildOptions(index_url="https://me:secret@pypi.example.org/simple")
