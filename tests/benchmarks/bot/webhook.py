"""How fast a delivery is acknowledged at 200 a second, against an endpoint that does nothing."""

from __future__ import annotations

import asyncio
import hashlib
import hmac
import json
import sys
import tempfile
import time
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from uuid import uuid4

import httpx

from bot.demo.redis_server import find_free_port, run_redis
from tests.benchmarks.table import Row, percentile

SECRET = "benchmark"
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
            environment = {
                "CAPUCHIN_WEBHOOK_SECRET": SECRET,
                "CAPUCHIN_REDIS_URL": redis_url,
                "PATH": "/usr/bin:/bin",
            }
            serve = [sys.executable, "-m", "bot", "serve", "--port", str(port)]
            async with _server(serve, port, environment):
                ours = await _load(port)
    port = find_free_port()
    async with _server([sys.executable, "-c", BARE, str(port)], port, {"PATH": "/usr/bin:/bin"}):
        bare = await _load(port)
    name = f"webhook acknowledged at {PER_SECOND}/s"
    baseline = "FastAPI endpoint that does nothing"
    return [
        Row(f"{name}, {label}", percentile(ours, share), "ms", baseline, percentile(bare, share))
        for label, share in (("p50", 0.50), ("p99", 0.99))
    ]


@asynccontextmanager
async def _server(argv: list[str], port: int, env: dict[str, str]) -> AsyncGenerator[None]:
    process = await asyncio.create_subprocess_exec(
        *argv, env=env, stderr=asyncio.subprocess.DEVNULL
    )
    try:
        for _ in range(200):
            try:
                _, writer = await asyncio.open_connection("127.0.0.1", port)
            except OSError:
                await asyncio.sleep(0.05)
            else:
                writer.close()
                break
        yield
    finally:
        process.terminate()
        await process.wait()


async def _load(port: int) -> list[float]:
    """Milliseconds of each delivery, sent on a fixed timetable whatever the answers do."""
    async with httpx.AsyncClient(base_url=f"http://127.0.0.1:{port}", timeout=30) as client:
        for number in range(50):
            await _deliver(client, -1 - number)
        start = time.perf_counter()
        async with asyncio.TaskGroup() as group:
            tasks: list[asyncio.Task[float]] = []
            for number in range(DELIVERIES):
                wait = start + number / PER_SECOND - time.perf_counter()
                if wait > 0:
                    await asyncio.sleep(wait)
                tasks.append(group.create_task(_deliver(client, number)))
    return [task.result() for task in tasks]


async def _deliver(client: httpx.AsyncClient, number: int) -> float:
    body = json.dumps(_label_event(number)).encode()
    signature = hmac.new(SECRET.encode(), body, hashlib.sha256).hexdigest()
    headers = {
        "X-GitHub-Event": "issues",
        "X-GitHub-Delivery": str(uuid4()),
        "X-Hub-Signature-256": f"sha256={signature}",
        "Content-Type": "application/json",
    }
    began = time.perf_counter()
    response = await client.post("/webhook", content=body, headers=headers)
    took = (time.perf_counter() - began) * 1000
    response.raise_for_status()
    return took


def _label_event(number: int) -> dict[str, object]:
    """A labelled issue of the size GitHub sends (about 12 kB), each of another repository."""
    return {
        "action": "labeled",
        "label": {"name": "capuchin"},
        "issue": {"number": 1, "title": "x", "body": "y" * 11_000, "state": "open"},
        "repository": {"name": f"r{number}", "owner": {"login": "acme"}},
        "installation": {"id": 1},
        "sender": {"login": "alice", "type": "User"},
    }
