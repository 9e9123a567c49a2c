"""Fixtures with the real Docker: one engine, one prepared image and one open sandbox a process.

A conftest takes them over by importing all.
"""

import asyncio
import uuid
from collections.abc import AsyncIterator, Callable, Coroutine, Generator, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from ipaddress import ip_network
from pathlib import Path
from typing import Any, cast

import docker
import pytest
from docker.errors import APIError

from pipeline.languages.detect import plan_attempts
from sandbox.docker.docker_client import connect
from sandbox.docker.docker_engine import DockerEngine, DockerOptions
from sandbox.engine import Engine, EnvironmentRequest, OnProgress
from sandbox.environment.build_options import BuildOptions
from sandbox.environment.recipe import Attempt
from sandbox.execution.session import SandboxSession
from sandbox.execution.warm_pool import ConfiguredMode
from sandbox.layout import LABEL_RUN
from sandbox.program import Execution, Limits, Program, python_script
from sandbox.tree import Tree
from tests.support.data.directory_trees import tree_of_directory

__all__ = [
    "ca_bundle",
    "daemon",
    "engine",
    "execute",
    "mode",
    "open_sandbox",
    "own_sandbox",
    "prepared",
    "run_id",
    "sandbox",
]

Execute = Callable[..., Coroutine[Any, Any, Execution]]

OWNER = f"tests-{uuid.uuid4().hex}"
"""No other installation on this daemon removes our containers, nor we theirs."""

PACKAGE = {
    "pyproject.toml": """\
[build-system]
requires = ["setuptools>=64"]
build-backend = "setuptools.build_meta"

[project]
name = "shop"
version = "1.0"
""",
    "src/shop/__init__.py": "from shop.total import total\n",
    "src/shop/total.py": "def total(a, b):\n    return a - b\n",
    "src/shop/dos.py": "WORD = 'dos'\r\nOTHER = 'line'\r\n",
    "src/shop/no_newline.py": "X = 1",
    "src/shop/run.sh": "#!/bin/sh\necho run\n",
    "tests/test_total.py": """\
from shop import total


def test_total():
    assert total(1, 2) == 3
""",
}
PACKAGE_FIX = """\
--- a/src/shop/total.py
+++ b/src/shop/total.py
@@ -1,2 +1,2 @@
 def total(a, b):
-    return a - b
+    return a + b
"""
"""A package with a bug; small, so that it installs fast."""


def make_tree(directory: Path, files: Mapping[str, str | bytes]) -> Tree:
    for name, content in files.items():
        path = directory / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content.encode() if isinstance(content, str) else content)
        path.chmod(0o755 if name.endswith(".sh") else 0o644)
    return tree_of_directory(directory)


@pytest.fixture(scope="session")
def ca_bundle() -> Path | None:
    """The host's certificates: some networks have an authority of their own."""
    bundle = Path("/etc/ssl/certs/ca-certificates.crt")
    return bundle if bundle.is_file() else None


@pytest.fixture(scope="session", params=["warm", "cold"])
def mode(request: pytest.FixtureRequest) -> ConfiguredMode:
    """Warm and cold executions have the same properties."""
    return request.param


@pytest.fixture(scope="session")
def engine(ca_bundle: Path | None, mode: ConfiguredMode) -> Iterator[DockerEngine]:
    with engine_in(mode, ca_bundle) as made:
        yield made


@pytest.fixture(scope="session", name="engine")
def any_engine(ca_bundle: Path | None) -> Iterator[DockerEngine]:
    """For a module whose tests are the same in both modes: `engine` under another name there.

    Overriding `mode` instead would leave an engine of the wrong mode to the modules after it.
    """
    with engine_in("auto", ca_bundle) as made:
        yield made


@pytest.fixture(scope="module", name="engine")
def usual_engine(ca_bundle: Path | None) -> Iterator[DockerEngine]:
    """One with the limits of every day: compilers need more than the other tests allow."""
    options = BuildOptions(ca_bundle=ca_bundle, maven_mirror="file:///usr/share/maven-repo")
    made = DockerEngine(DockerOptions(owner=OWNER, build=options))
    yield made
    asyncio.run(made.close())


@contextmanager
def engine_in(mode: ConfiguredMode, ca_bundle: Path | None) -> Generator[DockerEngine]:
    limits = Limits(seconds=30, memory_mb=256, disk_mb=64, processes=64)
    made = DockerEngine(
        DockerOptions(
            limits=limits, owner=OWNER, mode=mode, build=BuildOptions(ca_bundle=ca_bundle)
        )
    )
    yield made
    asyncio.run(made.close())


async def build_environment(
    engine: Engine,
    request: EnvironmentRequest,
    attempt: Attempt | None = None,
    *,
    on_progress: OnProgress | None = None,
) -> str:
    """The image of the request's tree, installed by the plan's first attempt if none is given."""
    attempt = attempt or (await plan_attempts(request))[0]
    return await engine.prepare(request, attempt, on_progress=on_progress)


async def run_in(engine: Engine, request: EnvironmentRequest, program: Program) -> Execution:
    """Run one program in the environment of the request."""
    image = await build_environment(engine, request)
    async with engine.open(image, run_id=request.run_id) as sandbox:
        return await sandbox.run(program)


async def prepare_package_image(engine: Engine, directory: Path) -> str:
    """The image of `PACKAGE`, installed with pytest."""
    make_tree(directory, PACKAGE)
    (directory / "src/shop/link.py").symlink_to("total.py")
    return await build_environment(engine, EnvironmentRequest(tree_of_directory(directory)))


@pytest.fixture(scope="session")
def prepared(engine: DockerEngine, tmp_path_factory: pytest.TempPathFactory) -> str:
    """The image of `PACKAGE`."""
    return asyncio.run(prepare_package_image(engine, tmp_path_factory.mktemp("package")))


@pytest.fixture
def run_id() -> str:
    return f"test-{uuid.uuid4().hex}"


@pytest.fixture(scope="session")
def daemon() -> Iterator[docker.APIClient]:
    """The daemon itself, to see what is there and to make what should not be."""
    client = connect(None)
    yield client
    client.close()


def containers_of(daemon: docker.APIClient, run_id: str, **filters: str) -> list[str]:
    found = cast(
        list[dict[str, Any]],
        daemon.containers(all=True, filters={"label": f"{LABEL_RUN}={run_id}", **filters}),
    )
    return [container["Id"] for container in found]


def gateway_of(daemon: docker.APIClient, network: str) -> str:
    """The host's address on a network; Docker leaves it out of the first start's facts."""
    facts = cast(dict[str, Any], cast(Any, daemon).inspect_network(network))
    config: dict[str, str] = facts["IPAM"]["Config"][0]
    return config.get("Gateway") or str(next(ip_network(config["Subnet"]).hosts()))


def processes_of(daemon: docker.APIClient, container: str) -> int:
    """How many processes the kernel knows in a running container."""
    return len(_list_processes(daemon, container))


def _list_processes(daemon: docker.APIClient, container: str) -> list[list[str]]:
    """The columns of `ps` for each, the command line last."""
    return cast(dict[str, Any], daemon.top(container))["Processes"]


async def wait_until_idle(daemon: docker.APIClient, container: str) -> None:
    """Wait until a warm container holds only its process 1 and that of the next execution.

    An execution is answered while the kernel still frees its resources.
    """
    async with asyncio.timeout(120):
        while processes_of(daemon, container) != 2:
            await asyncio.sleep(0.02)


async def wait_until_started(daemon: docker.APIClient, run_id: str) -> str:
    """The container of `run_id`, as soon as it runs."""
    async with asyncio.timeout(120):
        while True:
            for container in containers_of(daemon, run_id, status="running"):
                return container
            await asyncio.sleep(0.02)


async def wait_until_running(daemon: docker.APIClient, run_id: str, program: str) -> str:
    """The container of `run_id` in which `program`, a part of a command line, runs.

    A container runs before it has its job: what is done to it then is done before the execution.
    """
    async with asyncio.timeout(120):
        while True:
            for container in containers_of(daemon, run_id, status="running"):
                with suppress(APIError):  # it is gone again
                    if any(program in row[-1] for row in _list_processes(daemon, container)):
                        return container
            await asyncio.sleep(0.02)


@dataclass(frozen=True)
class OpenSandbox:
    """A sandbox that stays open while one test after another uses its containers."""

    run_id: str
    limits: Limits
    first: SandboxSession

    def make_session(self) -> SandboxSession:
        """A session in the same containers: equal scripts of two tests run twice.

        It belongs to the running event loop; the containers belong to threads and to no loop.
        """
        execute = self.first._execute  # pyright: ignore[reportPrivateUsage] - into the open pool
        return SandboxSession(self.first.image, limits=self.limits, execute=execute)


@contextmanager
def keep_open(engine: Engine, image: str, *, limits: Limits) -> Generator[OpenSandbox]:
    """`limits` are the engine's."""
    run_id = f"test-{uuid.uuid4().hex}"
    # A loop that is only opened and closed in; it must not become that of the tests.
    with asyncio.Runner(loop_factory=asyncio.new_event_loop) as runner:
        block = engine.open(image, run_id=run_id)
        first = runner.run(block.__aenter__())
        try:
            yield OpenSandbox(run_id, limits, first)
        finally:
            runner.run(block.__aexit__(None, None, None))


@pytest.fixture(scope="session")
def open_sandbox(
    engine: DockerEngine, prepared: str, daemon: docker.APIClient
) -> Iterator[OpenSandbox]:
    """What `sandbox` is a session of; closing it must leave no container behind."""
    with keep_open(engine, prepared, limits=engine.limits) as opened:
        yield opened
    assert containers_of(daemon, opened.run_id) == []


@pytest.fixture
async def sandbox(
    open_sandbox: OpenSandbox, daemon: docker.APIClient, mode: ConfiguredMode
) -> AsyncIterator[SandboxSession]:
    """A sandbox on `PACKAGE`. Warm, its containers are those of the tests before."""
    session = open_sandbox.make_session()
    yield session
    await session.close()
    assert mode == "warm" or containers_of(daemon, open_sandbox.run_id) == []


@pytest.fixture
def execute(sandbox: SandboxSession) -> Execute:
    """Runs a script in `sandbox`."""

    async def run(script: str, **options: Any) -> Execution:
        return await sandbox.run(python_script(script, **options))

    return run


@pytest.fixture
async def own_sandbox(
    engine: DockerEngine, prepared: str, run_id: str, daemon: docker.APIClient
) -> AsyncIterator[SandboxSession]:
    """The same with containers of its own, which `run_id` finds; none may be left."""
    async with engine.open(prepared, run_id=run_id) as opened:
        yield opened
    assert containers_of(daemon, run_id) == []
