"""The most memory that a process takes which prepares a large package and executes on it.

`python -m tests.benchmarks.session_memory FOLDER`: a process of its own, as a worker's would be if
it did nothing else; prints megabytes.
"""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path

from tests.benchmarks.release import SETUP, edits
from tests.benchmarks.warm import engine
from tests.support.matrix import matrix
from tests.trees import tree_of_directory

TEST = "import sympy"


async def peak_of(folder: Path) -> float:
    """Megabytes, in a process started for it."""
    argv = [sys.executable, "-m", "tests.benchmarks.session_memory", str(folder)]
    process = await asyncio.create_subprocess_exec(*argv, stdout=asyncio.subprocess.PIPE)
    said, _ = await process.communicate()
    assert process.returncode == 0
    return float(said)


async def use(folder: Path) -> None:
    diffs = edits(folder)
    held = engine("warm")
    image = await held.prepare(tree_of_directory(folder), setup=SETUP)
    async with held.open(image, run_id="bench") as sandbox:
        async for _ in matrix(sandbox, [(), *((diff,) for diff in diffs)], [TEST]):
            pass
    await held.close()


if __name__ == "__main__":
    asyncio.run(use(Path(sys.argv[1])))
    # Not of `getrusage`, which counts the process that this one was forked from.
    status = Path("/proc/self/status").read_text()
    sys.stdout.write(f"{int(status.split('VmHWM:')[1].split()[0]) / 1024}\n")
