"""How fast a delivery is acknowledged at 200 a second, and how many a second there can be."""

import os
import sys
import tempfile
from pathlib import Path
from typing import NamedTuple

from capuchin_demo.environment import find_free_port
from tests.benchmarks.bot.load import Load, read_processor_seconds, serve, serve_command
from tests.benchmarks.bot.send import send_apart
from tests.benchmarks.redis_server import run_redis
from tests.benchmarks.table import Row, percentile

PER_SECOND = 200
DELIVERIES = 2_000

BARE = """
import sys, uvicorn
from fastapi import FastAPI, Response
app = FastAPI()
@app.post("/webhook", status_code=202)
async def webhook() -> Response:
    return Response(status_code=202)
uvicorn.run(app, host="127.0.0.1", port=int(sys.argv[1]), log_level="error", access_log=False)
"""


class _Loads(NamedTuple):
    steady: Load
    flat_out: Load
    each: float
    """Milliseconds of processor time."""

    @property
    def failed(self) -> int:
        return self.steady.failed + self.flat_out.failed


async def measure() -> list[Row]:
    with tempfile.TemporaryDirectory() as folder:
        async with run_redis(Path(folder)) as redis_url:
            port = find_free_port()
            argv, env = serve_command(port, redis_url)
            async with serve(argv, port, env) as process:
                ours = await _load(port, process.pid)
    port = find_free_port()
    argv = [sys.executable, "-c", BARE, str(port)]
    async with serve(argv, port, {"PATH": "/usr/bin:/bin"}) as process:
        bare = await _load(port, process.pid)
    name = f"webhook acknowledged at {PER_SECOND}/s"
    baseline = "FastAPI endpoint that does nothing"
    steady, bare_steady = ours.steady.milliseconds, bare.steady.milliseconds
    return [
        *(
            Row(
                f"{name}, {label}",
                percentile(steady, share),
                "ms",
                baseline,
                percentile(bare_steady, share),
            )
            for label, share in (("p50", 0.50), ("p99", 0.99))
        ),
        Row("webhooks, saturation", ours.flat_out.per_second, "/s", baseline,
            bare.flat_out.per_second),
        Row("processor time of the server, each", ours.each, "ms", baseline, bare.each),
        Row("webhooks without an answer", ours.failed, "", baseline, bare.failed),
        Row("generator late, p99", percentile(ours.steady.late, 0.99), "ms", baseline,
            percentile(bare.steady.late, 0.99)),
        Row("load average at the end", os.getloadavg()[0], "", "processors", os.cpu_count() or 1),
    ]  # fmt: skip


async def _load(port: int, pid: int) -> _Loads:
    """At the steady rate, then as fast as the server answers."""
    await send_apart(port, [-1 - n for n in range(50)], 0)
    before = read_processor_seconds(pid)
    steady = await send_apart(port, range(DELIVERIES), PER_SECOND)
    flat_out = await send_apart(port, range(DELIVERIES, 2 * DELIVERIES), 0)
    taken = read_processor_seconds(pid) - before
    return _Loads(steady, flat_out, taken * 1000 / (2 * DELIVERIES))
