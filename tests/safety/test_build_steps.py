"""Code that runs while the repository is installed: with a network, and nothing else of value."""

from __future__ import annotations

from pathlib import Path

import docker
import pytest

from sandbox.docker.engine import DockerEngine
from sandbox.engine import EnvironmentRequest
from sandbox.errors import EnvironmentFailed
from sandbox.execution.probe import ConfiguredMode
from sandbox.program import Program
from tests.support.attack_scripts import METADATA_PROBE
from tests.support.docker import containers_of, make_tree


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
    image = await engine.prepare(
        EnvironmentRequest(make_tree(tmp_path, {"app.py": ""}), setup=steps, scope=run_id)
    )
    async with engine.open(image, run_id=run_id) as sandbox:
        seen = (await sandbox.run(Program(["cat", "seen"]))).output
    assert "PATH=" in seen
    assert not [word for word in ("canary", "docker.sock", "/run/secrets") if word in seen]


async def test_a_build_cannot_reach_the_clouds_metadata(
    engine: DockerEngine, tmp_path: Path, run_id: str, daemon: docker.APIClient
) -> None:
    tree = make_tree(tmp_path, {"knock.py": METADATA_PROBE})
    with pytest.raises(EnvironmentFailed) as failed:
        await engine.prepare(
            EnvironmentRequest(tree, setup=["python knock.py; exit 1"], run_id=run_id, scope=run_id)
        )
    answers = dict(line.split(" ", 1) for line in failed.value.log.strip().splitlines())
    # Blackholed: EINVAL or EHOSTUNREACH at once, not a timeout or a connection.
    assert set(answers.values()) <= {"OSError 22", "OSError 113", "OSError 101"}, answers
    assert containers_of(daemon, run_id) == []
