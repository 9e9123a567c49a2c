"""Ten edits and the base against ten tests, from opening the sandbox to closing it.

Warm against one hardened container for each execution, and against bare subprocesses.
"""

import asyncio
import io
import statistics
import tarfile
import tempfile
import time
import uuid
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, Final, cast

import docker

from bot.settings import Settings
from sandbox.docker.docker_client import connect
from sandbox.docker.docker_engine import DockerEngine
from sandbox.engine import EnvironmentRequest
from sandbox.execution.session import SandboxSession
from sandbox.layout import ENVIRONMENT, LABEL_OWNER, LABEL_RUN, TREE
from sandbox.program import Execution, Program
from tests.benchmarks.sandbox.bare_processes import BareProcesses
from tests.benchmarks.sandbox.session_memory import measure_peak
from tests.benchmarks.sandbox.warm_engine import PARALLEL, engine
from tests.benchmarks.sympy_release import SETUP, edits, release, unpack
from tests.benchmarks.table import Row
from tests.support.docker import build_environment
from tests.support.matrix import run_matrix

TESTS = {
    "trivial": [f"print({n})" for n in range(10)],
    "importing": [f"import sympy; print(sympy.Symbol('x') ** {n})" for n in range(10)],
}
ROUNDS = {"trivial": 5, "importing": 2}
STARTS = 60
CONTAINER_EACH = "one hardened container for each execution"
BARE = "bare subprocesses on prepared copies"


async def measure() -> list[Row]:
    daemon = connect(None)
    warm, cold = engine("warm"), engine("cold")
    try:
        with tempfile.TemporaryDirectory() as name:
            tree = unpack(release(Settings.from_env().data_dir / "cache"), Path(name))
            diffs = edits(Path(name))
            image = await build_environment(warm, EnvironmentRequest(tree, setup=SETUP))
            memory = await measure_peak(Path(name))
        await measure_matrix(warm, image, [], ["pass"])  # finds out that this host can
        with BareProcesses(daemon, image) as bare:
            rows = [Row("memory of a session's process, at most", memory, "MB", "the target", 60)]
            rows += await measure_preparation(warm, image, diffs, bare, daemon)
            rows += await measure_starts(warm, cold, image, bare)
            for kind, tests in TESTS.items():
                rows += await compare_matrix(warm, cold, image, diffs, kind, tests, bare)
        return rows
    finally:
        await warm.close()
        await cold.close()
        daemon.close()


async def measure_matrix(
    held: DockerEngine, image: str, diffs: Sequence[str], tests: Sequence[str]
) -> float:
    """Seconds of the whole matrix, opening and closing counted."""
    asked = [(), *((diff,) for diff in diffs)]
    begun = time.perf_counter()
    async with held.open(image, run_id="bench") as sandbox:
        async for cell in run_matrix(sandbox, asked, tests):
            assert isinstance(cell.run, Execution)
            assert cell.run.passed, cell
    return time.perf_counter() - begun


async def compare_matrix(
    warm: DockerEngine,
    cold: DockerEngine,
    image: str,
    diffs: Sequence[str],
    kind: str,
    tests: Sequence[str],
    bare: BareProcesses,
) -> list[Row]:
    ours: list[float] = []
    limit: list[float] = []
    for _ in range(ROUNDS[kind]):
        limit.append(await asyncio.to_thread(bare.matrix, tests, len(diffs), PARALLEL))
        ours.append(await measure_matrix(warm, image, diffs, tests))
    one_each = await measure_matrix(cold, image, diffs, tests)
    harness = await asyncio.to_thread(SwebenchHarness(image).matrix, tests, ["", *diffs], PARALLEL)
    name = f"matrix of {(len(diffs) + 1) * len(tests)} {kind} executions, {PARALLEL} at a time"
    took = statistics.median(ours)
    return [
        Row(name, took, "s", CONTAINER_EACH, one_each),
        Row(name, took, "s", HARNESS, harness),
        Row(name, took, "s", BARE, statistics.median(limit)),
    ]


async def measure_starts(
    warm: DockerEngine, cold: DockerEngine, image: str, bare: BareProcesses
) -> list[Row]:
    nothing = await asyncio.to_thread(bare.start, STARTS)

    async def over_bare(held: DockerEngine, rounds: int) -> float:
        async with held.open(image, run_id="bench") as sandbox:
            await sandbox.run(Program(["/bin/true"]))
            took = [await measure_start(sandbox, ()) for _ in range(rounds)]
        return (statistics.median(took) - nothing) * 1000

    ours, theirs = await over_bare(warm, STARTS), await over_bare(cold, 10)
    return [Row("execution start over bare", ours, "ms", CONTAINER_EACH, theirs)]


async def measure_start(sandbox: SandboxSession, diffs: Sequence[str]) -> float:
    begun = time.perf_counter()
    await sandbox.run(Program(["/bin/true"], diffs=diffs))
    return time.perf_counter() - begun


async def measure_preparation(
    warm: DockerEngine,
    image: str,
    diffs: Sequence[str],
    bare: BareProcesses,
    daemon: docker.APIClient,
) -> list[Row]:
    """Ten candidate trees, and what a lane that holds them takes."""
    run_id = uuid.uuid4().hex
    async with warm.open(image, run_id=run_id) as sandbox:
        await measure_start(sandbox, ())
        first = sum([await measure_start(sandbox, (diff,)) for diff in diffs])
        again = sum([await measure_start(sandbox, (diff,)) for diff in diffs])
        disk, memory = await asyncio.to_thread(memory_of, daemon, run_id)
    copies = await asyncio.to_thread(bare.prepare, diffs)
    ten = f"{len(diffs)} candidate trees"
    return [
        Row(f"{ten} prepared", first - again, "s", "cp -a and git apply", copies["seconds"]),
        Row(f"{ten}, in memory", disk, "MB", "cp -a, on disk", copies["mb"]),
        Row("memory of a lane that holds them", memory, "MB", "the target", 60),
    ]


def memory_of(daemon: docker.APIClient, run_id: str) -> tuple[float, float]:
    """Megabytes of the edits of the one lane of `run_id`, and of the lane in all."""
    found = cast(
        list[dict[str, Any]], daemon.containers(filters={"label": f"{LABEL_RUN}={run_id}"})
    )
    container = str(found[0]["Id"])
    asked = daemon.exec_create(container, ["du", "-sk", "/sbx/deltas"])
    # Of folders of the kernel's own that cannot be read it complains on the other stream.
    output, _ = cast(tuple[bytes, bytes], daemon.exec_start(asked["Id"], demux=True))
    kilobytes = int(output.split()[0])
    stats = cast(dict[str, Any], daemon.stats(container, stream=False))
    return kilobytes / 1024, int(stats["memory_stats"]["usage"]) / 1024 / 1024


HARNESS: Final = "the SWE-bench harness's and CodeMonkeys' way"


class SwebenchHarness:
    """Executes on a prepared `image`."""

    def __init__(self, image: str) -> None:
        self._image = image

    def matrix(self, tests: Sequence[str], diffs: Sequence[str], parallel: int) -> float:
        """Seconds of every test on every diff."""
        begun = time.perf_counter()
        client = connect(None)
        with ThreadPoolExecutor(parallel) as pool:
            cells = [pool.submit(self._run_pair, client, d, t) for d in diffs for t in tests]
            for cell in cells:
                cell.result()
        client.close()
        return time.perf_counter() - begun

    def _run_pair(self, client: docker.APIClient, diff: str, test: str) -> None:
        made = cast(Any, client).create_container(
            self._image,
            entrypoint=["tail", "-f", "/dev/null"],
            user="root",
            labels={LABEL_RUN: "bench", LABEL_OWNER: "bench"},
        )
        container = str(made["Id"])
        try:
            client.start(container)
            if diff:
                copy(client, container, "patch.diff", diff)
                run(client, container, ["git", "apply", "-v", "/tmp/patch.diff"])
            copy(client, container, "test.py", test)
            run(client, container, [f"{ENVIRONMENT}/bin/python", "/tmp/test.py"])
        finally:
            client.remove_container(container, force=True, v=True)


def copy(client: docker.APIClient, container: str, name: str, text: str) -> None:
    data = text.encode()
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w") as archive:
        member = tarfile.TarInfo(name)
        member.size = len(data)
        archive.addfile(member, io.BytesIO(data))
    client.put_archive(container, "/tmp", packed.getvalue())


def run(client: docker.APIClient, container: str, argv: Sequence[str]) -> None:
    found = {"PYTHONPATH": TREE}
    asked = client.exec_create(container, list(argv), workdir=TREE, user="root", environment=found)
    client.exec_start(asked["Id"])
    code = client.exec_inspect(asked["Id"])["ExitCode"]
    assert code == 0, (argv, code)
