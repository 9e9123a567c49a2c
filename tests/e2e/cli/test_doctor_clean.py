"""`capuchin doctor --clean`: whatever died before it, nothing is left."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
import time
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, cast

import docker
import pytest

from bot.runner.sandbox import FIX_OWNER, build_engine
from bot.settings import Settings
from sandbox.docker.base_image import base_reference, ensure_base_image
from sandbox.engine import Engine, EnvironmentRequest
from sandbox.errors import EnvironmentFailed
from sandbox.kubernetes.cluster import Cluster
from sandbox.kubernetes.pod import PodOptions, warm_pod_manifest
from sandbox.layout import LABEL_OWNER, LABEL_RUN
from sandbox.limits import Limits
from sandbox.scratch import lock_folder
from tests.support import own_docker_daemon
from tests.support.docker import build_environment, make_tree
from tests.support.local_kubernetes import NAMESPACE, LocalCluster
from tests.support.own_docker_daemon import OwnDaemon
from tests.support.redis import RedisServer
from tests.support.remote_docker import docker_behind_ssh, docker_behind_tls, skip_without_sshd

DOCKERFILE = "FROM capuchin/base\nRUN touch /made\nRUN exit 1\n"
OLD = 1_000_000_000


@pytest.fixture(scope="module")
def own(tmp_path_factory: pytest.TempPathFactory, daemon: docker.APIClient) -> Iterator[OwnDaemon]:
    """A Docker of our own, which has the base image."""
    if not own_docker_daemon.can_run_own_daemon():
        pytest.skip("needs root and dockerd")
    with OwnDaemon(tmp_path_factory.mktemp("docker")) as made:
        made.copy_image(ensure_base_image(daemon), daemon)
        yield made


@contextmanager
def far(way: str, own: OwnDaemon, folder: Path) -> Generator[dict[str, str]]:
    """The settings that lead to it."""
    if way == "ssh":
        skip_without_sshd()
        with docker_behind_ssh(folder) as url, pytest.MonkeyPatch.context() as patch:
            patch.setenv("PATH", str(folder / "bin"), prepend=os.pathsep)
            yield {"CAPUCHIN_DOCKER_URL": url + own.url.removeprefix("unix://")}
        return
    with docker_behind_tls(folder, own.url.removeprefix("unix://")) as port:
        yield {
            "CAPUCHIN_DOCKER_URL": f"tcp://localhost:{port}",
            "CAPUCHIN_DOCKER_TLS_DIR": str(folder),
        }


def settings_of(environment: dict[str, str]) -> Settings:
    named = {name.removeprefix("CAPUCHIN_").lower(): v for name, v in environment.items()}
    return Settings.model_validate({n: v for n, v in named.items() if n in Settings.model_fields})


async def leave(engine: Engine, folder: Path) -> None:
    """Images of an installed repository, and layers of a Dockerfile that failed."""
    await build_environment(
        engine, EnvironmentRequest(make_tree(folder / "one", {"app.py": ""}), setup=["true"])
    )
    tree = make_tree(folder / "two", {"app.py": "", "Dockerfile": DOCKERFILE})
    with pytest.raises(EnvironmentFailed):
        await build_environment(engine, EnvironmentRequest(tree, dockerfile="Dockerfile"))
    await engine.close()


def command(environment: dict[str, str]) -> str:
    argv = [sys.executable, "-m", "bot", "doctor", "--clean"]
    kept = {name: os.environ[name] for name in ("PATH", "HOME") if name in os.environ}  # noqa: TID251 - of a child
    done = subprocess.run(argv, env={**kept, **environment}, capture_output=True, text=True)
    return done.stderr


@pytest.mark.parametrize("way", ["tls", "ssh"])
async def test_nothing_of_ours_is_left_where_docker_is_far_away(
    way: str,
    own: OwnDaemon,
    redis_server: RedisServer,
    tmp_path: Path,
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    with far(way, own, tmp_path_factory.mktemp("far")) as led:
        # Its name is short: a socket lies in it, whose path may have 107 bytes.
        await nothing_is_left(led, own, redis_server, tmp_path, tmp_path_factory.mktemp("t"))


async def nothing_is_left(
    led: dict[str, str], own: OwnDaemon, redis_server: RedisServer, tmp_path: Path, temporary: Path
) -> None:
    environment = {
        **led,
        "CAPUCHIN_BUILD_NETWORK": "none",  # that daemon has no other
        "CAPUCHIN_REDIS_URL": redis_server.url,
        "CAPUCHIN_REDIS_PREFIX": f"{tmp_path.name}:",
        "CAPUCHIN_DATA_DIR": str(tmp_path / "data"),
        "TMPDIR": str(temporary),
    }
    settings = settings_of(environment)
    for owner in ("", FIX_OWNER):
        await leave(build_engine(settings, owner=owner), tmp_path / f"tree{owner}")
    client = own.client()
    base = base_reference()
    for owner in (FIX_OWNER, f"{settings.github_url} {settings.github_app_id}"):
        labels = {LABEL_RUN: "dead", LABEL_OWNER: owner}
        client.create_container(base, labels=labels, entrypoint=["sleep"], command=["60"])
    stale, held = temporary / "capuchin-patch-a", temporary / "capuchin-demo-b"
    half = tmp_path / "data/mirrors/h/o/.new-c"
    for folder in (stale, held, half):
        folder.mkdir(parents=True)
        os.utime(folder, (OLD, OLD))
    handle = lock_folder(held)

    said = await asyncio.to_thread(command, environment)

    os.close(handle)
    assert said.startswith("Removed 2 containers")
    assert said.rstrip().endswith("2 temporary folders.")
    assert (stale.exists(), held.exists(), half.exists()) == (False, True, False)
    assert client.containers(all=True) == []
    listed = cast(list[dict[str, Any]], client.images())
    assert [image["RepoTags"] for image in listed] == [[base]]
    assert (client.volumes()["Volumes"] or []) == []
    networks = {network["Name"] for network in cast(list[dict[str, str]], client.networks())}
    assert networks <= {"bridge", "host", "none"}
    client.close()


async def test_pods_go_and_the_builders_images_too(
    own: OwnDaemon, redis_server: RedisServer, tmp_path: Path
) -> None:
    with LocalCluster() as cluster:
        environment = {
            "CAPUCHIN_SANDBOX": "kubernetes",
            "CAPUCHIN_SANDBOX_REGISTRY": "registry.invalid/x",
            "CAPUCHIN_KUBECONFIG": str(cluster.kubeconfig(tmp_path)),
            "CAPUCHIN_DOCKER_URL": own.url,
            "CAPUCHIN_BUILD_NETWORK": "none",
            "CAPUCHIN_REDIS_URL": redis_server.url,
            "CAPUCHIN_REDIS_PREFIX": f"{tmp_path.name}:",
        }
        settings = settings_of(environment)
        pods = Cluster(NAMESPACE, tmp_path / "kubeconfig")
        for owner in (FIX_OWNER, f"{settings.github_url} {settings.github_app_id}", "another"):
            labels = {LABEL_RUN: "dead", LABEL_OWNER: owner}
            image, limits = base_reference(), Limits(memory_mb=64)
            pods.create_pod(
                warm_pod_manifest(image, limits=limits, labels=labels, options=PodOptions())
            )
        pods.close()
        said = await asyncio.to_thread(command, environment)
        assert said.startswith("Removed 2 containers")
        (left,) = cluster.pods.values()
        assert left["metadata"]["annotations"][LABEL_OWNER] == "another"


def test_a_program_that_outlived_us_is_ended(tmp_path: Path) -> None:
    from sandbox.scratch import PROCESS_FILE, remove_stale

    folder = tmp_path / "capuchin-ssh-x"
    folder.mkdir()
    child = subprocess.Popen(["tail", "-f", "/dev/null", f"{folder}/docker.sock"], stderr=-3)
    while not Path(f"/proc/{child.pid}/cmdline").read_bytes():
        time.sleep(0.01)  # it is between closing our pipe and being another program
    (folder / PROCESS_FILE).write_text(str(child.pid))
    assert remove_stale([tmp_path], young_seconds=3600) == 0
    assert remove_stale([tmp_path], young_seconds=0) == 1
    assert child.wait(120) == -signal.SIGKILL
