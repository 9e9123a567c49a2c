"""The most memory that a process takes which prepares a large package and executes on it.

`python -m tests.benchmarks.sandbox.session_memory FOLDER` prints megabytes. It is a process of its
own, like a worker that does nothing else.
"""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path

from sandbox.engine import EnvironmentRequest
from tests.benchmarks.sandbox.warm_engine import engine
from tests.benchmarks.sympy_release import SETUP, edits
from tests.support.data.directory_trees import tree_of_directory
from tests.support.docker import build_environment
from tests.support.matrix import run_matrix

TEST = "import sympy"


async def measure_peak(folder: Path) -> float:
    """Megabytes, in a process started for it."""
    argv = [sys.executable, "-m", "tests.benchmarks.sandbox.session_memory", str(folder)]
    process = await asyncio.create_subprocess_exec(*argv, stdout=asyncio.subprocess.PIPE)
    output, _ = await process.communicate()
    assert process.returncode == 0
    return float(output)


async def prepare_and_execute(folder: Path) -> None:
    diffs = edits(folder)
    held = engine("warm")
    image = await build_environment(
        held, EnvironmentRequest(tree_of_directory(folder), setup=SETUP)
    )
    async with held.open(image, run_id="bench") as sandbox:
        async for _ in run_matrix(sandbox, [(), *((diff,) for diff in diffs)], [TEST]):
            pass
    await held.close()


if __name__ == "__main__":
    asyncio.run(prepare_and_execute(Path(sys.argv[1])))
    # Not of `getrusage`, which counts the process that this one was forked from.
    status = Path("/proc/self/status").read_text()
    sys.stdout.write(f"{int(status.split('VmHWM:')[1].split()[0]) / 1024}\n")
