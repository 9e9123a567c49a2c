import asyncio
import shutil
from collections.abc import AsyncIterator, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any, cast

import docker
import pytest
from docker.errors import APIError

from sandbox.docker.docker_client import DockerAddress, connect
from sandbox.docker.docker_engine import DockerEngine, DockerOptions
from sandbox.environment.build_options import BuildOptions
from sandbox.execution.session import SandboxSession
from sandbox.execution.warm_pool import ConfiguredMode
from sandbox.program import Limits, python_script
from tests.support.docker import (
    OWNER,
    OpenSandbox,
    ca_bundle,
    containers_of,
    execute,
    mode,
    open_sandbox,
    prepare_package_image,
    run_id,
    wait_until_idle,
)
from tests.support.own_docker_daemon import OwnDaemon, can_run_own_daemon

__all__ = ["ca_bundle", "execute", "mode", "open_sandbox", "run_id"]

RUNSC = shutil.which("runsc")
# The platform that needs neither KVM nor a recent kernel.
ARGUMENTS = ["--platform=ptrace", "--network=none"]

SENTRY = "the kernel of gVisor answers this itself, isolated by gVisor, without our filter"
OTHER_KERNEL = {
    "test_only_the_plain_families_of_sockets_open": SENTRY,
    "test_no_dangerous_system_call_gets_through": SENTRY,
    "test_no_new_namespace_of_any_kind": SENTRY,
    "test_32_bit_system_calls_are_refused": SENTRY,
    "test_it_has_no_right_that_it_could_use_or_get_back": "gVisor shows no CapAmb, no filter",
    "test_devices_cannot_be_made": "a device node leads to a device of gVisor's kernel, if to any",
    "test_inodes_have_an_end": "its tmpfs has no limit of inodes, only of memory",
    "test_a_sparse_file_fools_nobody": "its tmpfs counts blocks as if all were written",
    "test_the_supervising_processes_cannot_be_reached": "what process 1 has open is open "
    "to all of its uid: what they write ends the execution, reported as killed",
    "test_no_signal_ends_the_supervising_processes": "process 1 is like all "
    "others there: its end ends the execution, reported as killed",
    "test_the_memory_layout_of_process_1_is_hidden": "it shows addresses, not what lies there",
}
"""What fails under gVisor, and why; any other failure there is a defect."""

LOOK = """
import glob, hashlib, os, shop
digest = hashlib.sha256()
for folder, folders, names in os.walk("."):
    folders.sort()
    for path in sorted(os.path.join(folder, name) for name in names):
        status = os.lstat(path)
        digest.update(repr((path, status.st_mode, status.st_size, status.st_mtime_ns)).encode())
        link = os.path.islink(path)
        digest.update(os.readlink(path).encode() if link else open(path, "rb").read())
mine = ("/proc/1", f"/proc/{os.getpid()}")
others = [pid for pid in glob.glob("/proc/[0-9]*") if pid not in mine]
there = [sorted(os.listdir(path)) for path in ("/tmp", "/tmp/home", "/dev/shm")]
print(shop.total(3, 1), others, *there, digest.hexdigest())
"""


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--gvisor", action="store_true", help="attack sandboxes under gVisor")
    parser.addoption("--prepared", default="", help="attack this image of the package instead")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    if not config.getoption("--gvisor", default=False):
        return
    for item in items:
        reason = OTHER_KERNEL.get(getattr(item, "originalname", ""))
        if reason:
            item.add_marker(pytest.mark.xfail(reason=reason, strict=True))


@pytest.fixture(scope="session")
def gvisor(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory, mode: ConfiguredMode
) -> Iterator[OwnDaemon | None]:
    """A daemon of our own with runsc, if `--gvisor` asks for it."""
    if not request.config.getoption("--gvisor", default=False):
        yield None
        return
    if mode == "warm":
        pytest.skip("gVisor has no overlay: each execution has its own container")
    if RUNSC is None or not can_run_own_daemon():
        pytest.fail("--gvisor needs runsc, dockerd and root")
    runtimes = {"runsc": {"path": RUNSC, "runtimeArgs": ARGUMENTS}}
    with OwnDaemon(tmp_path_factory.mktemp("gvisor"), runtimes=runtimes) as own:
        yield own


@pytest.fixture(scope="session")
def daemon(gvisor: OwnDaemon | None) -> Iterator[docker.APIClient]:
    """The daemon that holds what is attacked."""
    client = connect(gvisor.url if gvisor else None)
    yield client
    client.close()


@pytest.fixture(scope="session")
def prepared(
    request: pytest.FixtureRequest,
    ca_bundle: Path | None,
    gvisor: OwnDaemon | None,
    daemon: docker.APIClient,
    tmp_path_factory: pytest.TempPathFactory,
) -> str:
    """The image of the package, or the one that `--prepared` names."""
    if given := request.config.getoption("--prepared", ""):
        return str(given)
    builder = DockerEngine(DockerOptions(owner=OWNER, build=BuildOptions(ca_bundle=ca_bundle)))

    async def build() -> str:
        try:
            return await prepare_package_image(builder, tmp_path_factory.mktemp("package"))
        finally:
            await builder.close()

    image = asyncio.run(build())
    if gvisor:
        here = connect(None)
        gvisor.copy_image(image, here)
        here.close()
        return image
    # Another process that builds it at the same time takes the name for its own, made later.
    return str(cast(dict[str, Any], daemon.inspect_image(image))["Id"])


@pytest.fixture(scope="session")
def engine(
    ca_bundle: Path | None, mode: ConfiguredMode, gvisor: OwnDaemon | None
) -> Iterator[DockerEngine]:
    address = DockerAddress(gvisor.url if gvisor else "")
    runtime = "runsc" if gvisor else "auto"
    limits = Limits(seconds=30, memory_mb=256, disk_mb=64, processes=64)
    engine = DockerEngine(
        DockerOptions(
            limits=limits,
            owner=OWNER,
            mode=mode,
            address=address,
            runtime=runtime,
            build=BuildOptions(ca_bundle=ca_bundle),
        )
    )
    yield engine
    asyncio.run(engine.close())


@pytest.fixture(scope="session")
def untouched(open_sandbox: OpenSandbox) -> str:
    """What an execution sees before any attack."""

    async def look() -> str:
        return (await open_sandbox.make_session().run(python_script(LOOK))).output

    seen = asyncio.run(look())
    assert seen.startswith("2 [] ['capuchin', 'home'] [] [] "), seen
    return seen


@pytest.fixture
async def sandbox(
    open_sandbox: OpenSandbox, daemon: docker.APIClient, mode: ConfiguredMode, untouched: str
) -> AsyncIterator[SandboxSession]:
    """A sandbox to attack. Afterwards the next execution in it must see nothing of the attack.

    Warm, it is always the same container, until an attack ends that one.
    """
    session = open_sandbox.make_session()
    yield session
    try:
        assert (await session.run(python_script(LOOK))).output == untouched
        await session.close()
        containers = containers_of(daemon, open_sandbox.run_id)
        # With two of them, that look could have been into the one that was not attacked.
        assert len(containers) == (1 if mode == "warm" else 0)
        for container in containers:
            await wait_until_idle(daemon, container)
    except BaseException:
        # The next attack shall not be blamed for what is left of this one.
        for container in containers_of(daemon, open_sandbox.run_id):
            with suppress(APIError):  # it removes itself at the same time
                daemon.remove_container(container, force=True)
        raise
