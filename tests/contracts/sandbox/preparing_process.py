"""Prepares a folder's environment, in a process of its own: `-m`, an owner and the folder.

Prints what it reports, a line each, then the image.
"""

import asyncio
import sys
from pathlib import Path

from sandbox.docker.docker_engine import DockerEngine, DockerOptions
from sandbox.engine import EnvironmentRequest
from tests.support.data.directory_trees import tree_of_directory
from tests.support.docker import build_environment


async def prepare(owner: str, folder: Path) -> None:
    engine = DockerEngine(DockerOptions(owner=owner))
    try:
        request = EnvironmentRequest(tree_of_directory(folder), setup=["true"])
        print(await build_environment(engine, request, on_progress=print))
    finally:
        await engine.close()


if __name__ == "__main__":
    asyncio.run(prepare(sys.argv[1], Path(sys.argv[2])))
