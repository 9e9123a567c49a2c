"""A flood: 200 webhooks a second, a third of them forged, slow or huge, for a minute.

The server is `capuchin serve`; the runs that it records are counted in Redis. Every fiftieth honest
webhook is delivered twice. Beside it, two whole runs (`capuchin demo`, as nice as `capuchin worker`
makes itself) and the processes that send take their share of the machine. Server, Redis and runs
have the shares of the processors that `deploy/compose.yaml` gives them, where control groups can be
written. The figures are of the machine as it was: the last rows say who else took its processors.
"""

import asyncio
import json
import os
import sys
import tempfile
import time
from collections.abc import Generator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final, NamedTuple, cast

import yaml

from bot.settings import Settings
from bot.storage.storage import Storage
from capuchin_demo.environment import find_free_port
from tests.benchmarks.bot.load import Clock, Load, resident_megabytes, serve, serve_command
from tests.benchmarks.bot.send import send_apart
from tests.benchmarks.redis_server import run_redis
from tests.benchmarks.table import Row, percentile

PER_SECOND = 200
SECONDS = 60
RUNS_BESIDE = 2
DEMO_SECONDS = 300
"""After the flood; an idle machine needs a fraction of it."""
QUIET_SECONDS = 5
"""Before the flood, to see what else the machine does."""

_DEMO_AS_WORKER = """
import os, pathlib, sys
from bot.cli import main
from bot.cli.worker import give_way
give_way()
if sys.argv[1:]:
    (pathlib.Path(sys.argv[1]) / "cgroup.procs").write_text(str(os.getpid()))
raise SystemExit(main(["demo"]))
"""


class _Attack(NamedTuple):
    answers: int
    processor_seconds: float


async def measure() -> list[Row]:
    with (
        tempfile.TemporaryDirectory() as folder,
        group_of_processes("flood-server", read_shares("server")) as first,
        group_of_processes("flood-runs", read_shares("worker")) as second,
    ):
        async with run_redis(Path(folder)) as redis_url:
            port = find_free_port()
            argv, env = serve_command(port, redis_url)
            async with (
                serve(argv, port, env) as process,
                Storage.open(redis_url, Settings().redis_prefix, timeout=10) as storage,
            ):
                if first:
                    for each in (process.pid, await _redis_process(storage)):
                        (first / "cgroup.procs").write_text(str(each))
                start = Clock.read(process.pid)
                await asyncio.sleep(QUIET_SECONDS)
                quiet, redis_before = Clock.read(process.pid), await _redis_seconds(storage)
                beside = [await _start_demo(second) for _ in range(RUNS_BESIDE)]
                honest, hostile = await _flood(port)
                taken = Clock.read(process.pid).since(quiet)
                redis_taken = await _redis_seconds(storage) - redis_before
                memory = resident_megabytes(process.pid)
                load = os.getloadavg()[0]
                runs = await storage.runs.list_active()
            finished = [await _wait_for(demo) for demo in beside]
    senders = honest.processor_seconds + hostile.processor_seconds
    others = taken.machine - taken.process - redis_taken - senders
    before = quiet.since(start)
    accepted = honest.statuses.get(202, 0)
    wanted = f"{PER_SECOND}/s for {SECONDS} s, a third hostile"
    processors = os.cpu_count() or 1

    def share(name: str, seconds: float) -> Row:
        return Row(f"flood: processors taken by {name}", seconds / taken.at, "", "all", processors)

    return [
        Row("flood: honest webhooks, p50", percentile(honest.milliseconds, 0.5), "ms", wanted, 50),
        Row("flood: honest webhooks, p99", percentile(honest.milliseconds, 0.99), "ms", wanted, 50),
        Row("flood: honest webhooks without an answer", honest.failed, "", wanted, 0),
        Row("flood: runs recorded", len(runs), "", "honest webhooks taken", accepted),
        Row("flood: hostile webhooks answered", hostile.answers, "", wanted, 0),
        Row("flood: memory of the server", memory, "MB", "limit", 250),
        Row("flood: runs beside that opened their pull request", finished.count(0), "", "begun",
            RUNS_BESIDE),
        Row("flood: processor shares of the server", read_shares("server") if first else 0, "",
            "a worker's", read_shares("worker")),
        share("the server", taken.process),
        share("its Redis", redis_taken),
        share("those who send", senders),
        share("the two runs and all else", others),
        Row("flood: processors busy before it began", before.machine / before.at, "", "all",
            processors),
        Row("flood: sender late, p99", percentile(honest.late, 0.99), "ms", wanted, 0),
        Row("flood: load average", load, "", "processors", processors),
    ]  # fmt: skip


async def _redis_seconds(storage: Storage) -> float:
    facts = await storage.redis.info("cpu")
    return float(facts["used_cpu_user"]) + float(facts["used_cpu_sys"])


async def _redis_process(storage: Storage) -> int:
    return int((await storage.redis.info("server"))["process_id"])


async def _start_demo(group: Path | None) -> asyncio.subprocess.Process:
    quiet = asyncio.subprocess.DEVNULL
    command = (sys.executable, "-c", _DEMO_AS_WORKER, *([str(group)] if group else []))
    # Its own session, as that of another service: Linux may share processors between sessions.
    return await asyncio.create_subprocess_exec(
        *command, stdin=quiet, stdout=quiet, stderr=quiet, start_new_session=True
    )


async def _wait_for(demo: asyncio.subprocess.Process) -> int:
    """Its exit code; another than 0 if it takes too long."""
    try:
        async with asyncio.timeout(DEMO_SECONDS):
            return await demo.wait()
    except TimeoutError:
        demo.terminate()
        return await demo.wait()


async def _flood(port: int) -> tuple[Load, _Attack]:
    share = PER_SECOND * 2 // 3
    # Every fiftieth is the one before, once more.
    numbers: Sequence[int] = [n - (n % 50 == 49) for n in range(share * SECONDS)]
    hostile = asyncio.create_task(_attack(port, PER_SECOND - share))
    honest = await send_apart(port, numbers, share)
    return honest, await hostile


async def _attack(port: int, per_second: int) -> _Attack:
    numbers = map(str, (port, per_second, SECONDS))
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        "-m",
        "tests.benchmarks.bot.attack",
        *numbers,
        stdout=asyncio.subprocess.PIPE,
    )
    out, _ = await process.communicate()
    return _Attack(**json.loads(out))


COMPOSE: Final = Path(__file__).resolve().parents[3] / "deploy/compose.yaml"
DEFAULT: Final = 1024
PARENTS: Final = (Path("/sys/fs/cgroup/cpu"), Path("/sys/fs/cgroup/system.slice"))
"""Of cgroup 1, and where systemd puts services and Docker's containers side by side."""


def read_shares(service: str) -> int:
    """`cpu_shares` of a service in compose.yaml."""
    found = yaml.safe_load(COMPOSE.read_text())
    return cast(int, found["services"][service].get("cpu_shares", DEFAULT))


@contextmanager
def group_of_processes(name: str, shares: int) -> Generator[Path | None]:
    """A control group beside that of the Docker daemon; None where it cannot be made.

    Its file `cgroup.procs` takes the numbers of processes, which end before the block does.
    """
    parent = next((each for each in PARENTS if each.is_dir()), None)
    folder = parent / name if parent else None
    try:
        if folder is None:
            raise FileNotFoundError
        folder.mkdir()
        old = folder / "cpu.shares"
        if old.exists():
            old.write_text(str(shares))
        else:  # https://github.com/opencontainers/cgroups, ConvertCPUSharesToCgroupV2Value
            (folder / "cpu.weight").write_text(str(1 + (shares - 2) * 9999 // 262142))
    except OSError:
        yield None
        return
    try:
        yield folder
    finally:
        _remove(folder)


def _remove(folder: Path) -> None:
    for _ in range(50):
        with suppress(OSError):  # a process in it has not quite ended
            folder.rmdir()
            return
        time.sleep(0.1)
