"""How fast a delivery is acknowledged at 200 a second, and how many a second there can be."""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

from bot.demo.redis_server import find_free_port
from tests.benchmarks.bot.load import Load, build_delivery, send_on_timetable, serve, serve_command
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


async def measure() -> list[Row]:
    with tempfile.TemporaryDirectory() as folder:
        async with run_redis(Path(folder)) as redis_url:
            port = find_free_port()
            argv, env = serve_command(port, redis_url)
            async with serve(argv, port, env):
                ours = await _load(port)
    port = find_free_port()
    argv = [sys.executable, "-c", BARE, str(port)]
    async with serve(argv, port, {"PATH": "/usr/bin:/bin"}):
        bare = await _load(port)
    name = f"webhook acknowledged at {PER_SECOND}/s"
    baseline = "FastAPI endpoint that does nothing"
    steady, bare_steady = ours[0].milliseconds, bare[0].milliseconds
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
        Row("webhooks, saturation", ours[1].per_second, "/s", baseline, bare[1].per_second),
        Row("webhooks without an answer", _failed(ours), "", baseline, _failed(bare)),
    ]


async def _load(port: int) -> tuple[Load, Load]:
    """At the steady rate, then as fast as the server answers."""
    await send_on_timetable(port, [build_delivery(-1 - n) for n in range(50)], 0)
    steady = [build_delivery(number) for number in range(DELIVERIES)]
    flat_out = [build_delivery(DELIVERIES + number) for number in range(DELIVERIES)]
    return await send_on_timetable(port, steady, PER_SECOND), await send_on_timetable(
        port, flat_out, 0
    )


def _failed(loads: tuple[Load, Load]) -> int:
    return sum(load.failed for load in loads)
