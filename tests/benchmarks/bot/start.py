"""How long `capuchin --help` takes and what an idle worker holds, against a bare Python."""

import asyncio
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Final

from capuchin_demo.hub.tokens import generate_app
from tests.benchmarks.redis_server import run_redis
from tests.benchmarks.table import Row
from tests.support.github.hub import LocalHub

TIMES: Final = 7
IDLE_SECONDS: Final = 5
"""After its start a worker has taken up nothing and imported all that it needs for that."""
BARE_HELP: Final = [
    sys.executable,
    "-c",
    "import argparse; argparse.ArgumentParser().format_help()",
]
BARE_WORKER: Final = [sys.executable, "-c", "import asyncio; asyncio.run(asyncio.sleep(60))"]


async def measure() -> list[Row]:
    helped = await asyncio.to_thread(_least_seconds, [sys.executable, "-m", "bot", "--help"])
    bare = await asyncio.to_thread(_least_seconds, BARE_HELP)
    with tempfile.TemporaryDirectory() as folder:
        held, bare_held = await _idle_megabytes(Path(folder))
    return [
        Row("capuchin --help", helped, "s", "argparse alone", bare),
        Row("an idle worker's memory", held, "MB", "an idle event loop", bare_held),
    ]


def _least_seconds(argv: list[str]) -> float:
    """The fastest of some runs; the first one, which may compile modules, does not count."""
    seconds: list[float] = []
    for _ in range(TIMES + 1):
        start = time.perf_counter()
        subprocess.run(argv, check=True, stdout=subprocess.DEVNULL)
        seconds.append(time.perf_counter() - start)
    return min(seconds[1:])


async def _idle_megabytes(folder: Path) -> tuple[float, float]:
    """Resident memory of a worker that waits for a run, and of a bare event loop."""
    hub = LocalHub(folder / "hub", "benchmark", generate_app())
    async with run_redis(folder) as redis_url, hub.serve():
        environment = {
            "PATH": "/usr/bin:/bin",
            "CAPUCHIN_WEBHOOK_SECRET": "benchmark",
            "CAPUCHIN_REDIS_URL": redis_url,
            "CAPUCHIN_GITHUB_URL": hub.url,
            "CAPUCHIN_GITHUB_APP_ID": str(hub.app.app_id),
            "CAPUCHIN_GITHUB_PRIVATE_KEY": hub.app.private_key_pem,
            "CAPUCHIN_SOLVER_MODEL": "openai:none@http://127.0.0.1:9/v1",
            "CAPUCHIN_DATA_DIR": str(folder / "data"),
        }
        worker = await _resident([sys.executable, "-m", "bot", "worker"], environment)
    return worker, await _resident(BARE_WORKER, {})


async def _resident(argv: list[str], environment: dict[str, str]) -> float:
    process = await asyncio.create_subprocess_exec(
        *argv, env=environment, stderr=asyncio.subprocess.DEVNULL
    )
    try:
        await asyncio.sleep(IDLE_SECONDS)
        if process.returncode is not None:
            raise RuntimeError(f"{argv[1:]} ended with {process.returncode} instead of waiting.")
        status = Path(f"/proc/{process.pid}/status").read_text(encoding="ascii")
        (line,) = (line for line in status.splitlines() if line.startswith("VmRSS:"))
        return int(line.split()[1]) / 1024
    finally:
        if process.returncode is None:
            process.send_signal(signal.SIGTERM)
        await process.wait()
