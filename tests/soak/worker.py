"""A worker that runs every test on every edit and keeps each result; goes on where it was killed.

`python -m tests.soak.worker STORE DOCKER_URL IMAGE MODE`
"""

import asyncio
import os
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import cast

from pipeline.concurrency import gather_all
from pipeline.store import DirStore
from sandbox.docker.docker_client import DockerAddress
from sandbox.docker.docker_engine import DockerEngine, DockerOptions
from sandbox.errors import SandboxUnavailable
from sandbox.execution.warm_pool import ConfiguredMode
from sandbox.program import Execution, Limits, python_script

EDITS = 20
TESTS: Mapping[str, int] = {"warm": 8, "cold": 2}
"""By mode: each cold execution has a container of its own, which costs far more."""
OWNER = "soak"
AGAIN_SECONDS = 0.1


def diff(edit: int) -> str:
    """An edit that a test can tell from every other."""
    return f"--- /dev/null\n+++ b/edit.py\n@@ -0,0 +1 @@\n+NUMBER = {edit}\n"


def script(test: int) -> str:
    """Writes where it may, so that what one leaves would show in the next."""
    return (
        "import os, sys, time\n"
        "from edit import NUMBER\n"
        "assert sorted(os.listdir('/tmp')) == ['capuchin', 'home'], os.listdir('/tmp')\n"
        "assert os.listdir('/tmp/home') == []\n"
        "assert 'left' not in os.listdir('.')\n"
        "open('left', 'w').close(); open('/tmp/left', 'w').close()\n"
        "open('/tmp/home/left', 'w').close()\n"
        "time.sleep(0.05)\n"
        f"print(NUMBER, {test})\n"
        f"sys.exit((NUMBER + {test}) % 3)\n"
    )


def key(edit: int, test: int) -> str:
    return f"runs/{edit}-{test}"


async def work(store: DirStore, engine: DockerEngine, image: str, tests: int) -> None:
    async with engine.open(image, run_id=f"soak-{os.getpid()}") as sandbox:

        async def one(edit: int, test: int) -> None:
            if await store.load(key(edit, test), Execution) is None:
                run = await sandbox.run(python_script(script(test), diffs=(diff(edit),)))
                await store.save(key(edit, test), run)

        await gather_all(one(edit, test) for edit in range(EDITS) for test in range(tests))


async def main(folder: str, url: str, image: str, mode: str) -> None:
    store = DirStore(Path(folder))
    while True:
        engine = DockerEngine(
            DockerOptions(
                limits=Limits(seconds=30, memory_mb=128, disk_mb=16, processes=32),
                owner=OWNER,
                mode=cast(ConfiguredMode, mode),
                address=DockerAddress(url),
            )
        )
        try:
            await work(store, engine, image, TESTS[mode])
        except SandboxUnavailable:
            await asyncio.sleep(AGAIN_SECONDS)
        else:
            return
        finally:
            await engine.close()


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
