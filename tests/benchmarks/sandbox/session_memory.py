"""The most memory that a process takes which prepares a large package and executes on it.

`python -m tests.benchmarks.sandbox.session_memory FOLDER` reads how to install the package from
standard input, and prints megabytes. It is a process of its own, which imports nothing but the
sandbox.
"""

import asyncio
import pickle
import sys
from pathlib import Path

from sandbox.engine import EnvironmentRequest
from sandbox.environment.recipe import Attempt
from tests.benchmarks.sandbox.warm_engine import engine
from tests.benchmarks.sympy_release import SETUP, edits
from tests.support.data.directory_trees import tree_of_directory
from tests.support.matrix import run_matrix

TEST = "import sympy"


async def measure_peak(folder: Path) -> float:
    """Megabytes, in a process started for it."""
    from pipeline.languages.detect import plan_attempts  # that process does not plan

    attempt = (await plan_attempts(request_of(folder)))[0]
    argv = [sys.executable, "-m", "tests.benchmarks.sandbox.session_memory", str(folder)]
    pipe = asyncio.subprocess.PIPE
    process = await asyncio.create_subprocess_exec(*argv, stdin=pipe, stdout=pipe)
    output, _ = await process.communicate(pickle.dumps(attempt))
    assert process.returncode == 0
    return float(output)


def request_of(folder: Path) -> EnvironmentRequest:
    return EnvironmentRequest(tree_of_directory(folder), setup=SETUP)


async def prepare_and_execute(folder: Path, attempt: Attempt) -> None:
    diffs = edits(folder)
    held = engine("warm")
    image = await held.prepare(request_of(folder), attempt)
    async with held.open(image, run_id="bench") as sandbox:
        async for _ in run_matrix(sandbox, [(), *((diff,) for diff in diffs)], [TEST]):
            pass
    await held.close()


if __name__ == "__main__":
    asyncio.run(prepare_and_execute(Path(sys.argv[1]), pickle.load(sys.stdin.buffer)))
    # Not of `getrusage`, which counts the process that this one was forked from.
    status = Path("/proc/self/status").read_text()
    sys.stdout.write(f"{int(status.split('VmHWM:')[1].split()[0]) / 1024}\n")
