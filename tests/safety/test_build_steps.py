"""Code that runs while the repository is installed: with a network, and nothing else of value."""

import socket
from pathlib import Path

import docker
import pytest

from sandbox.docker.docker_engine import DockerEngine
from sandbox.engine import EnvironmentRequest
from sandbox.errors import EnvironmentFailed
from sandbox.execution.warm_pool import ConfiguredMode
from sandbox.program import Program
from tests.support.attack_scripts import ESCAPE_FROM_A_BUILD
from tests.support.docker import build_environment, containers_of, gateway_of, make_tree


@pytest.fixture(autouse=True)
def once(mode: ConfiguredMode) -> None:
    if mode == "cold":
        pytest.skip("builds are the same in both")


async def test_a_build_step_finds_no_secret(
    engine: DockerEngine, tmp_path: Path, run_id: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ANTHROPIC_API_KEY", "canary-key")
    monkeypatch.setenv("PIP_EXTRA_INDEX_URL", "https://me:canary-password@pypi.example.org")
    steps = [
        "env > seen; cat /proc/*/environ >> seen 2>/dev/null || true",
        "ls -d /var/run/docker.sock /run/secrets /root/.??* /root/* >> seen 2>/dev/null || true",
        "cat /root/.netrc /root/.pypirc /etc/pip.conf ~/.docker/config.json >> seen 2>&1 || true",
    ]
    image = await build_environment(
        engine, EnvironmentRequest(make_tree(tmp_path, {"app.py": ""}), setup=steps, scope=run_id)
    )
    async with engine.open(image, run_id=run_id) as sandbox:
        seen = (await sandbox.run(Program(["cat", "seen"]))).output
    assert "PATH=" in seen
    assert not [word for word in ("canary", "docker.sock", "/run/secrets") if word in seen]


async def test_a_build_reaches_no_host_private_network_or_metadata(
    engine: DockerEngine, tmp_path: Path, run_id: str, daemon: docker.APIClient
) -> None:
    """As code of the repository, and as root in its Dockerfile; the index answers all the same."""
    gateway = gateway_of(daemon, "bridge")
    # A Dockerfile does not get the certificates of this machine.
    trust = "--trusted-host pypi.org --trusted-host files.pythonhosted.org"
    fetch = f"pip download {trust} --quiet --no-deps --dest /tmp/got colorama"
    with socket.create_server((gateway, 0)) as host:
        port = host.getsockname()[1]
        escape = f"python3 escape.py {port} {gateway}; {fetch} && ls /tmp/got; exit 1"
        dockerfile = f"FROM capuchin/base\nCOPY escape.py /\nRUN cd / && {escape}\n"
        tree = make_tree(tmp_path, {"escape.py": ESCAPE_FROM_A_BUILD, "Dockerfile": dockerfile})
        for given in ({"setup": [escape]}, {"dockerfile": "Dockerfile"}):
            with pytest.raises(EnvironmentFailed) as failed:
                await build_environment(
                    engine,
                    EnvironmentRequest(tree, run_id=run_id, scope=run_id, **given),  # pyright: ignore[reportArgumentType] - either
                )
            lines = failed.value.log.splitlines()
            tried = [line for line in lines if line.startswith(("connect", "tunnel", "through"))]
            assert len(tried) == 30, failed.value.log
            assert [line for line in lines if "OPEN" in line] == []
            assert f"tunnel {gateway} 403" in lines
            assert "resolve pypi.org gaierror" in lines
            assert [line for line in lines if line.startswith("colorama-")], failed.value.log
        host.setblocking(False)
        with pytest.raises(BlockingIOError):
            host.accept()
    assert containers_of(daemon, run_id) == []
