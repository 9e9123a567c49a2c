"""A Docker daemon of another machine, behind TLS or ssh, keeps the same promises."""

import asyncio
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Literal

import docker
import pytest

from sandbox.docker.docker_client import DockerAddress
from sandbox.docker.docker_engine import DockerEngine, DockerOptions
from sandbox.engine import EnvironmentRequest
from sandbox.environment.build_options import BuildOptions
from sandbox.errors import PatchRejected, SandboxUnavailable
from sandbox.execution.warm_pool import ConfiguredMode
from sandbox.program import Ending, Execution, Limits, python_script
from tests.support.docker import (
    OWNER,
    PACKAGE,
    PACKAGE_FIX,
    build_environment,
    containers_of,
    make_tree,
)
from tests.support.matrix import run_matrix
from tests.support.remote_docker import docker_behind_ssh, docker_behind_tls, skip_without_sshd

Way = Literal["tls", "ssh"]


@pytest.fixture(scope="module", params=["tls", "ssh"])
def address(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[DockerAddress]:
    way: Way = request.param
    folder = tmp_path_factory.mktemp("away")
    if way == "tls":
        with docker_behind_tls(folder) as port:
            yield DockerAddress(f"tcp://localhost:{port}", tls=folder)
        return
    skip_without_sshd()
    with docker_behind_ssh(folder) as url:
        yield DockerAddress(url, ssh_config=folder / "ssh_config")


@pytest.fixture
async def far(
    address: DockerAddress, ca_bundle: Path | None, mode: ConfiguredMode
) -> AsyncIterator[DockerEngine]:
    limits = Limits(seconds=30, memory_mb=256, disk_mb=64, processes=64)
    made = DockerEngine(
        DockerOptions(
            limits=limits,
            owner=OWNER,
            mode=mode,
            address=address,
            build=BuildOptions(ca_bundle=ca_bundle),
        )
    )
    yield made
    await made.close()


async def test_an_environment_is_prepared_and_used_there(
    far: DockerEngine, daemon: docker.APIClient, run_id: str, tmp_path: Path
) -> None:
    image = await build_environment(far, EnvironmentRequest(make_tree(tmp_path, PACKAGE)))
    async with far.open(image, run_id=run_id) as sandbox:
        ask = "from shop import total; print(total(1, 2))"
        cells = {
            (cell.edit, cell.test): cell.run
            async for cell in run_matrix(
                sandbox, [(), (PACKAGE_FIX,)], [ask, "raise SystemExit(2)"]
            )
        }
        outputs = {at: run.output for at, run in cells.items() if isinstance(run, Execution)}
        assert outputs == {(0, 0): "-1\n", (1, 0): "3\n", (0, 1): "", (1, 1): ""}
        with pytest.raises(PatchRejected):
            await sandbox.run(python_script("pass", diffs=("nonsense",)))
        slow = await sandbox.run(python_script("import time; time.sleep(60)", seconds=0.5))
        assert slow.ending is Ending.TIMEOUT
        long = await sandbox.run(python_script("print('x' * 3_000_000)"))
        assert long.exit_code == 0
        assert long.output.startswith("xxx")
        going = asyncio.create_task(sandbox.run(python_script("import time; time.sleep(60)")))
        await asyncio.sleep(0)
        going.cancel()
        with pytest.raises(asyncio.CancelledError):
            await going
    assert containers_of(daemon, run_id) == []


async def test_the_check_shows_the_version_there(far: DockerEngine) -> None:
    assert (await far.check()).startswith("Docker ")


async def test_a_tunnel_that_broke_is_dug_anew(tmp_path: Path) -> None:
    skip_without_sshd()
    with docker_behind_ssh(tmp_path) as url:
        address = DockerAddress(url, ssh_config=tmp_path / "ssh_config")
        engine = DockerEngine(DockerOptions(owner=OWNER, address=address))
        assert (await engine.check()).startswith("Docker ")
        tunnel = address._tunnel  # pyright: ignore[reportPrivateUsage] - no door breaks it
        assert tunnel is not None
        tunnel._process.kill()  # pyright: ignore[reportPrivateUsage]
        tunnel._process.wait()  # pyright: ignore[reportPrivateUsage]
        assert address.is_lost
        assert (await engine.check()).startswith("Docker ")
        await engine.close()
        assert not tunnel.socket.parent.exists()


@pytest.mark.parametrize(
    ("url", "words"),
    [
        ("ssh://nobody@127.0.0.1:1", "Connection refused"),
        ("ssh://-oProxyCommand=touch@host", "must read ssh://USER@HOST"),
        ("ssh://user:password@host", "without a password"),
        ("ssh://", "must read ssh://USER@HOST"),
        ("ssh://host:port", "is not a number"),
    ],
)
async def test_an_address_that_leads_nowhere_is_reported(url: str, words: str) -> None:
    engine = DockerEngine(DockerOptions(address=DockerAddress(url)))
    with pytest.raises(SandboxUnavailable, match=words):
        await engine.check()
    await engine.close()


async def test_a_folder_without_certificates_is_reported(tmp_path: Path) -> None:
    engine = DockerEngine(DockerOptions(address=DockerAddress("tcp://localhost:1", tls=tmp_path)))
    with pytest.raises(SandboxUnavailable, match=r"does not hold ca\.pem, cert\.pem, key\.pem"):
        await engine.check()
    await engine.close()


async def test_a_daemon_of_another_authority_is_not_trusted(tmp_path: Path) -> None:
    (tmp_path / "mine").mkdir()
    (tmp_path / "other").mkdir()
    with docker_behind_tls(tmp_path / "mine") as port, docker_behind_tls(tmp_path / "other"):
        address = DockerAddress(f"tcp://localhost:{port}", tls=tmp_path / "other")
        engine = DockerEngine(DockerOptions(address=address))
        with pytest.raises(SandboxUnavailable, match="DOCKER_CERT_PATH"):
            await engine.check()
        await engine.close()
