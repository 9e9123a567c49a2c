"""Environments of five source releases installed by uv, beside pip as it was used before.

The same package with what its tests need, from the image with interpreter and tools to the finished
environment. Cold: nothing of the index is kept. Warm: the cache beside the build has it. pip asks
the index itself, and never kept anything between builds. Every environment costs two containers,
a network and two commits, whatever installs it: further rows are without what an environment takes
that installs nothing.
"""

from __future__ import annotations

import asyncio
import hashlib
import statistics
import sys
import tempfile
import time
import urllib.request
import uuid
from pathlib import Path

import docker
from docker.errors import APIError, NotFound

from capuchin_demo.package import unpack
from pipeline.languages.detect import plan_attempts
from sandbox.docker.build_network import INDEX_VOLUME
from sandbox.docker.docker_client import connect
from sandbox.docker.docker_engine import DockerEngine, DockerOptions
from sandbox.engine import EnvironmentRequest
from sandbox.environment.build_options import BuildOptions
from sandbox.guest.installer.requirements import read_files
from sandbox.tree import Tree
from tests.benchmarks.table import Row
from tests.support.docker import build_environment, make_tree

RELEASES = (
    "flask-3.0.3",
    "jsonschema-4.22.0",
    "marshmallow-3.21.2",
    "requests-2.32.3",
    "sphinx-7.3.7",
)
UV, PIP, NOTHING = "undated", "today", "setup"
CONFLICT = 409
PATIENCE_SECONDS = 300.0


async def measure() -> list[Row]:
    bundle = Path("/etc/ssl/certs/ca-certificates.crt")
    found = bundle if bundle.is_file() else None
    cached = BuildOptions(ca_bundle=found)
    # With a secret, a build asks the index itself.
    direct = BuildOptions(ca_bundle=found, secrets={"CAPUCHIN_BENCH": uuid.uuid4().hex})
    trees = [fetch_tree(release) for release in RELEASES]
    for options, attempt in ((cached, UV), (direct, PIP)):
        await install(trees[0], options, attempt)  # makes the images that all builds share
    client = connect(None)
    pip: list[float] = []
    cold: list[float] = []
    warm: list[float] = []
    bare: list[float] = []
    for release, tree in zip(RELEASES, trees, strict=True):
        # One after another for each package: the machine's other load changes with time.
        pip.append(await install(tree, direct, PIP))
        await empty_index_cache(client)
        cold.append(await install(tree, cached, UV))
        warm.append(await install(tree, cached, UV))
        bare.append(await install(tree, cached, NOTHING))
        told = f"pip {pip[-1]:.1f} s, uv {cold[-1]:.1f} s cold, {warm[-1]:.1f} s warm"
        told += f", nothing {bare[-1]:.1f} s"
        sys.stderr.write(f"  {release}: {told}\n")
    client.close()
    kinds = {"cold": cold, "warm": warm}
    count = len(trees)
    base, own = statistics.median(pip), statistics.median(bare)
    whole = {kind: statistics.median(times) for kind, times in kinds.items()}
    return [
        *(
            Row(f"install, {kind}, median of {count}", whole[kind], "s", "pip", base)
            for kind in kinds
        ),
        Row(f"an environment that installs nothing, median of {count}", own, "s", "pip", base),
        *(
            Row(f"install alone, {kind}", whole[kind] - own, "s", "pip alone", base - own)
            for kind in kinds
        ),
    ]


async def empty_index_cache(client: docker.APIClient) -> None:
    """Wait until no build uses it; raises APIError if one always does."""
    deadline = time.monotonic() + PATIENCE_SECONDS
    while True:
        try:
            return client.remove_volume(INDEX_VOLUME)
        except NotFound:
            return None
        except APIError as error:
            if error.status_code != CONFLICT or time.monotonic() > deadline:
                raise
            await asyncio.sleep(0.2)


async def install(tree: Tree, options: BuildOptions, name: str) -> float:
    """Seconds of one installation that finds no image of an earlier one."""
    engine = DockerEngine(DockerOptions(owner="bench", build=options))
    try:
        setup = ("true",) if name == NOTHING else ()
        request = EnvironmentRequest(tree, scope=uuid.uuid4().hex, setup=setup)
        attempt = next(one for one in await plan_attempts(request) if one.name == name)
        begun = time.monotonic()
        await build_environment(engine, request, attempt)
        return time.monotonic() - begun
    finally:
        await engine.close()


def fetch_tree(release: str) -> Tree:
    """A source release from PyPI, its hash checked against the index."""
    name = release.rpartition("-")[0]
    file = next(one for one in read_files(name) if one["filename"] == f"{release}.tar.gz")
    with urllib.request.urlopen(file["url"], timeout=60) as answer:
        data: bytes = answer.read()
    if hashlib.sha256(data).hexdigest() != file["hashes"]["sha256"]:
        raise ValueError(f"{release} has the wrong hash.")
    with tempfile.TemporaryDirectory() as folder:
        return make_tree(Path(folder), dict(unpack(data)))
