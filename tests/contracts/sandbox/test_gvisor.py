"""Sandboxes under gVisor keep the same promises; it is found, or asked for by name."""

import asyncio
import shutil
from collections.abc import AsyncIterator, Iterator

import docker
import pytest

from sandbox.docker.docker_client import DockerAddress
from sandbox.docker.docker_engine import DockerEngine, DockerOptions
from sandbox.errors import SandboxUnavailable
from sandbox.execution.session import SandboxSession
from sandbox.program import Ending, Limits
from tests.contracts.sandbox.execution_contract import *  # noqa: F403 - the same tests again
from tests.support.docker import OWNER, Execute, any_engine
from tests.support.own_docker_daemon import OwnDaemon, can_run_own_daemon

__all__ = ["any_engine"]

RUNSC = shutil.which("runsc")
# The platform that needs neither KVM nor a recent kernel.
ARGUMENTS = ["--platform=ptrace", "--network=none"]


@pytest.fixture(scope="module")
def own(tmp_path_factory: pytest.TempPathFactory) -> Iterator[OwnDaemon]:
    if RUNSC is None or not can_run_own_daemon():
        pytest.skip("this needs runsc, dockerd and root; install runsc to run it")
    runtimes = {"runsc": {"path": RUNSC, "runtimeArgs": ARGUMENTS}}
    with OwnDaemon(tmp_path_factory.mktemp("gvisor"), runtimes=runtimes) as daemon:
        yield daemon


@pytest.fixture(scope="module")
def under_gvisor(own: OwnDaemon, prepared: str, daemon: docker.APIClient) -> Iterator[DockerEngine]:
    own.copy_image(prepared, daemon)
    limits = Limits(seconds=30, memory_mb=256, disk_mb=64, processes=64)
    engine = DockerEngine(DockerOptions(limits=limits, owner=OWNER, address=DockerAddress(own.url)))
    yield engine
    asyncio.run(engine.close())


@pytest.fixture
async def sandbox(
    under_gvisor: DockerEngine, prepared: str, run_id: str
) -> AsyncIterator[SandboxSession]:
    async with under_gvisor.open(prepared, run_id=run_id) as opened:
        yield opened


async def test_what_runs_sees_the_kernel_of_gvisor(execute: Execute) -> None:
    run = await execute("import platform; print(platform.release())")
    assert run.output == "4.4.0\n"


@pytest.mark.parametrize(
    "attack",
    [
        "os.kill(1, 1); time.sleep(60)",
        "os.kill(1, 9); time.sleep(60)",
        """open("/proc/1/fd/2", "w").write('{"exit": 0, "seconds": 0, "oom": 0}')""",
    ],
    ids=["a signal", "the last signal", "a forged end"],
)
async def test_a_program_that_brings_its_container_down_is_reported_as_killed(
    execute: Execute, attack: str
) -> None:
    run = await execute(f"import os, time; {attack}")
    assert run.ending is Ending.KILLED
    assert (await execute("print(1)")).output == "1\n"


async def test_the_check_says_so(own: OwnDaemon) -> None:
    for runtime, said in (("auto", True), ("runsc", True), ("default", False)):
        engine = DockerEngine(
            DockerOptions(owner=OWNER, address=DockerAddress(own.url), runtime=runtime)
        )
        assert (" with runsc" in await engine.check()) is said
        await engine.close()


async def test_a_runtime_that_docker_does_not_know_is_reported() -> None:
    engine = DockerEngine(DockerOptions(owner=OWNER, runtime="kata"))
    with pytest.raises(SandboxUnavailable, match=r"has no runtime 'kata', only .*runc"):
        await engine.check()
    await engine.close()
