"""The base image is made once; other images are kept while they fit, the latest used longest."""

import subprocess
import sys
import tarfile
import uuid
from collections.abc import AsyncIterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, cast

import docker
import pytest

from sandbox.docker.base_image import ensure_base_image, image_exists
from sandbox.docker.docker_client import LABEL_MAKER, connect
from sandbox.docker.docker_engine import DockerEngine, DockerOptions
from sandbox.docker.images import collect_base_images, list_images
from sandbox.engine import EnvironmentRequest
from sandbox.program import Program
from tests.support.docker import build_environment, make_tree

SCOPE = uuid.uuid4().hex
"""Nothing that was built before fits."""


@pytest.fixture
async def maker() -> AsyncIterator[DockerEngine]:
    """An installation of its own, so that nobody else's images can go."""
    engine = DockerEngine(DockerOptions(owner=f"tests-{uuid.uuid4().hex}"))
    yield engine
    await engine.collect(max_bytes=0)
    await engine.close()


async def built(maker: DockerEngine, folder: Path) -> str:
    tree = make_tree(folder, {"app.py": f"# {uuid.uuid4()}"})
    return await build_environment(
        maker,
        EnvironmentRequest(
            tree, setup=["head -c 3000000 /dev/urandom > big"], scope=SCOPE + folder.name
        ),
    )


async def test_the_least_recently_used_go_first(
    maker: DockerEngine, tmp_path: Path, daemon: docker.APIClient
) -> None:
    first, second = await built(maker, tmp_path / "one"), await built(maker, tmp_path / "two")
    tree = make_tree(tmp_path / "one", {})
    found = await build_environment(
        maker,
        EnvironmentRequest(tree, setup=["head -c 3000000 /dev/urandom > big"], scope=SCOPE + "one"),
    )
    assert found == first
    freed = await maker.collect(max_bytes=5_000_000)
    assert 2_900_000 < freed < 6_000_000
    assert image_exists(daemon, first)
    assert not image_exists(daemon, second)
    assert await maker.collect(max_bytes=5_000_000) == 0


async def test_an_image_in_use_stays_and_nobody_elses_is_touched(
    maker: DockerEngine, tmp_path: Path, daemon: docker.APIClient
) -> None:
    image = await built(maker, tmp_path / "used")
    other = DockerEngine(DockerOptions(owner=f"tests-{uuid.uuid4().hex}"))
    assert await other.collect(max_bytes=0) == 0
    async with maker.open(image, run_id="test-images") as sandbox:
        assert (await sandbox.run(Program(["true"]))).passed
        await maker.collect(max_bytes=0)
        assert image_exists(daemon, image)
    await maker.collect(max_bytes=0)
    assert not image_exists(daemon, image)
    await other.close()


async def test_everything_we_made_can_go_and_the_base_stays(
    maker: DockerEngine, tmp_path: Path, daemon: docker.APIClient
) -> None:
    image = await built(maker, tmp_path / "all")
    facts = cast(dict[str, Any], daemon.inspect_image(image))
    owner = str(facts["Config"]["Labels"][LABEL_MAKER])
    made = {"label": f"{LABEL_MAKER}={owner}"}
    assert len(list_images(daemon, filters=made)) == 2
    await maker.collect(max_bytes=0)
    assert list_images(daemon, filters=made) == []
    assert daemon.images("capuchin/base")


async def test_a_base_of_another_version_goes_when_nobody_uses_it(
    daemon: docker.APIClient, tmp_path: Path
) -> None:
    repository, archive = f"tests-{uuid.uuid4().hex}/base", tmp_path / "root.tar"
    with tarfile.open(archive, "w") as made:
        made.addfile(tarfile.TarInfo("empty"))
    for tag in ("old", "ours"):
        daemon.import_image_from_file(
            str(archive), repository=repository, tag=tag, changes=[f"LABEL x={tag}"]
        )
    keep = f"{repository}:ours"

    def left(seconds: float) -> set[str]:
        collect_base_images(daemon, keep=keep, unused_seconds=seconds, repositories=[repository])
        found = cast(list[dict[str, Any]], daemon.images(repository))
        return {name for entry in found for name in entry["RepoTags"]}

    assert left(3600) == {f"{repository}:old", keep}
    assert left(0) == {keep}
    daemon.remove_image(keep)


def test_the_base_image_is_made_once_however_many_ask(daemon: docker.APIClient) -> None:
    said: list[str] = []

    def ask(_: int) -> str:
        client = connect(None)
        try:
            return ensure_base_image(client, on_progress=said.append)
        finally:
            client.close()

    with ThreadPoolExecutor(3) as pool:
        references = set(pool.map(ask, range(3)))
    assert len(references) == 1
    assert len([line for line in said if "is missing" in line]) <= 1
    assert (
        ensure_base_image(daemon, on_progress=lambda line: said.append(f"again: {line}"))
        in references
    )
    assert not [line for line in said if line.startswith("again")]


def test_the_command_says_ready_and_nothing_else_when_it_is() -> None:
    argv = [sys.executable, "-m", "sandbox.docker.base_image"]
    done = subprocess.run(argv, check=True, capture_output=True, text=True)
    assert done.stdout.startswith("sandbox base image capuchin/base:")
    assert done.stdout.endswith(": ready\n")
    assert done.stderr == ""


def test_the_command_fails_with_a_sentence_when_docker_is_down(tmp_path: Path) -> None:
    argv = [
        sys.executable,
        "-m",
        "sandbox.docker.base_image",
        "--docker-url",
        f"unix://{tmp_path}/no",
    ]
    done = subprocess.run(argv, check=False, capture_output=True, text=True)
    assert done.returncode == 1
    assert "Install and start Docker" in done.stderr
    assert "Traceback" not in done.stderr
