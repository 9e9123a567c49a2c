"""Many executions while a worker, containers and Docker die at random."""

import asyncio
import random
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any, cast

import docker
import pytest
from docker.errors import APIError, NotFound

from pipeline.store import DirStore
from sandbox.docker.docker_client import DockerAddress
from sandbox.docker.docker_engine import DockerEngine, DockerOptions
from sandbox.execution.warm_pool import ConfiguredMode
from sandbox.layout import LABEL_OWNER
from sandbox.program import Execution
from tests.soak import worker
from tests.soak.worker import EDITS, OWNER, TESTS
from tests.support.own_docker_daemon import OwnDaemon, can_run_own_daemon

SEED = 20261121
KILLS = ("worker", "container", "container", "daemon", "worker", "container", "daemon", "worker")
MOST_SECONDS = 600


@pytest.fixture(scope="module")
def own(tmp_path_factory: pytest.TempPathFactory) -> Iterator[OwnDaemon]:
    if not can_run_own_daemon():
        pytest.skip("this needs root and dockerd: it kills a Docker daemon of its own")
    with OwnDaemon(tmp_path_factory.mktemp("dockerd")) as daemon:
        yield daemon
    assert daemon.mounts() == []


def test_nothing_is_lost_and_nothing_is_left(
    own: OwnDaemon, prepared: str, daemon: docker.APIClient, mode: ConfiguredMode, tmp_path: Path
) -> None:
    own.copy_image(prepared, daemon)
    arguments = [str(tmp_path), own.url, prepared, mode]
    storm = Storm(own, arguments, tmp_path / "runs", EDITS * TESTS[mode])
    storm.rage()
    store = DirStore(tmp_path)
    for edit in range(EDITS):
        for test in range(TESTS[mode]):
            run = asyncio.run(store.load(worker.key(edit, test), Execution))
            assert run is not None, (edit, test)
            assert (run.output, run.exit_code) == (f"{edit} {test}\n", (edit + test) % 3)
    left = asyncio.run(reaped(own))
    assert left == []
    assert layers(own) == []


class Storm:
    """A worker that is started again whenever it died, and what befalls it."""

    def __init__(self, own: OwnDaemon, arguments: list[str], results: Path, most: int) -> None:
        self._own = own
        self._argv = [sys.executable, "-m", "tests.soak.worker", *arguments]
        self._results = results
        self._most = most
        self._chance = random.Random(SEED)
        self._deadline = time.monotonic() + MOST_SECONDS

    def rage(self) -> None:
        """Until the worker ends by itself; each kill comes when so many results are there."""
        process = subprocess.Popen(self._argv)
        try:
            share = self._most // (len(KILLS) + 1)
            for number, victim in enumerate(KILLS, start=1):
                self._until(share * number + self._chance.randrange(share // 2), process)
                process = self._strike(victim, process)
            assert process.wait(max(self._deadline - time.monotonic(), 1)) == 0
        finally:
            process.kill()
            process.wait()

    def _until(self, count: int, process: subprocess.Popen[bytes]) -> None:
        while self._count() < count:
            assert process.poll() in (None, 0), "the worker ended by an error"
            assert time.monotonic() < self._deadline, f"{self._count()} results, then silence"
            time.sleep(0.005)

    def _count(self) -> int:
        return len(list(self._results.glob("*.json")))

    def _strike(self, victim: str, process: subprocess.Popen[bytes]) -> subprocess.Popen[bytes]:
        if victim == "worker":
            process.kill()
            process.wait()
            return subprocess.Popen(self._argv)
        if victim == "container":
            self._kill_one()
        else:
            self._own.kill()
            self._own.start()
        return process

    def _kill_one(self) -> None:
        client = self._own.client()
        found = containers(client)
        if found:
            with suppress(APIError):  # it may have ended by itself
                client.kill(self._chance.choice(found))
        client.close()


def containers(client: docker.APIClient) -> list[str]:
    wanted = {"label": f"{LABEL_OWNER}={OWNER}"}
    found = cast(list[dict[str, Any]], client.containers(all=True, filters=wanted))
    return [each for one in found if there(client, each := str(one["Id"]))]


def there(client: docker.APIClient, container: str) -> bool:
    """Docker may go on listing one that ended while it was being removed, and that is not there."""
    try:
        client.inspect_container(container)
    except NotFound:
        return False
    return True


async def reaped(own: OwnDaemon) -> list[str]:
    """What is still there after the reaper, as `capuchin doctor --clean` runs it."""
    engine = DockerEngine(DockerOptions(owner=OWNER, address=DockerAddress(own.url)))
    await engine.reap(live_runs=[])
    await engine.close()
    client = own.client()
    left = containers(client)
    client.close()
    return left


def layers(own: OwnDaemon) -> list[str]:
    """Overlay mounts of containers.

    Not those of `-init` layers: Docker mounts one for an instant while it makes a container, and
    when it is killed in that instant the mount belongs to no container, so its API cannot name it.
    """
    mounts = (Path(at) for at in own.mounts())
    return [
        str(at) for at in mounts if at.name == "merged" and not at.parent.name.endswith("-init")
    ]
