from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import docker
import pytest

from sandbox.docker import DockerEngine, DockerSandbox
from sandbox.probe import Mode
from tests.docker import (
    ca_bundle,
    containers_of,
    daemon,
    engine,
    mode,
    prepared,
    processes_of,
    run_id,
)

__all__ = ["ca_bundle", "daemon", "engine", "mode", "prepared", "run_id"]

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
print(shop.total(3, 1), others, os.listdir("/tmp"), os.listdir("/dev/shm"), digest.hexdigest())
"""


@pytest.fixture(scope="session")
def untouched(engine: DockerEngine, prepared: str) -> str:
    """What an execution sees before anybody attacked anything."""

    async def look() -> str:
        async with engine.open(prepared, run_id="test-untouched") as sandbox:
            return (await sandbox.run_script(LOOK)).output

    seen = asyncio.run(look())
    assert seen.startswith("2 [] ['capuchin'] [] "), seen
    return seen


@pytest.fixture
async def sandbox(
    engine: DockerEngine,
    prepared: str,
    run_id: str,
    daemon: docker.APIClient,
    mode: Mode,
    untouched: str,
) -> AsyncIterator[DockerSandbox]:
    """A sandbox to attack. Afterwards the next execution in it sees a world as new."""
    async with engine.open(prepared, run_id=run_id) as opened:
        yield opened
        assert (await opened.run_script(LOOK)).output == untouched
        lanes = containers_of(daemon, run_id)
        # Process 1 of the lane, and that of the next world, which waits.
        idle = [processes_of(daemon, lane) for lane in lanes]
        assert idle == ([2] * len(lanes) if mode == "warm" else [])
    assert containers_of(daemon, run_id) == []
