"""Fixtures with the real Docker: one engine and one prepared image a session, a sandbox a test.

A conftest takes them over by importing the names.
"""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import AsyncIterator, Iterator, Mapping
from pathlib import Path
from typing import Any, cast

import docker
import pytest

from sandbox.daemon import LABEL_RUN, connect
from sandbox.docker import DockerEngine, DockerSandbox
from sandbox.limits import Limits
from sandbox.tree import Tree, tree_of_directory

__all__ = ["ca_bundle", "daemon", "engine", "prepared", "run_id", "sandbox"]

OWNER = f"tests-{uuid.uuid4().hex}"
"""Nobody else on this daemon reaps our containers, nor we theirs."""

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


@pytest.fixture(scope="session")
def engine(ca_bundle: Path | None) -> Iterator[DockerEngine]:
    limits = Limits(seconds=30, memory_mb=256, disk_mb=64, processes=64)
    engine = DockerEngine(limits=limits, ca_bundle=ca_bundle, owner=OWNER)
    yield engine
    asyncio.run(engine.close())


@pytest.fixture(scope="session")
def prepared(engine: DockerEngine, tmp_path_factory: pytest.TempPathFactory) -> str:
    """The image of `PACKAGE`, installed with pytest."""
    directory = tmp_path_factory.mktemp("package")
    tree = make_tree(directory, PACKAGE)
    (directory / "src/shop/link.py").symlink_to("total.py")
    tree = tree_of_directory(directory)
    return asyncio.run(engine.prepare(tree))


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


async def until_started(daemon: docker.APIClient, run_id: str) -> str:
    """The container of `run_id`, as soon as it runs."""
    async with asyncio.timeout(20):
        while True:
            for container in containers_of(daemon, run_id, status="running"):
                return container
            await asyncio.sleep(0.02)


@pytest.fixture
async def sandbox(
    engine: DockerEngine, prepared: str, run_id: str, daemon: docker.APIClient
) -> AsyncIterator[DockerSandbox]:
    """A sandbox on `PACKAGE`; its test fails if it leaves a container behind."""
    async with engine.open(prepared, run_id=run_id) as opened:
        yield opened
    assert containers_of(daemon, run_id) == []
