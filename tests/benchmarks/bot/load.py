"""Webhooks at a fixed rate, from a generator that costs less than the server: raw HTTP/1.1."""

import asyncio
import hashlib
import hmac
import json
import os
import sys
import time
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

SECRET = "benchmark"
CONNECTIONS = 32
MOST_LATE = 60.0
"""Seconds after the last delivery's time; what has no answer then has none."""


def label_event(number: int) -> bytes:
    """A labelled issue of the size GitHub sends (about 12 kB), each of another repository."""
    payload = {
        "action": "labeled",
        "label": {"name": "capuchin"},
        "issue": {"number": 1, "title": "x", "body": "y" * 11_000, "state": "open"},
        "repository": {"id": number, "name": f"r{number}", "owner": {"login": "acme"}},
        "installation": {"id": 1},
        "sender": {"login": "alice", "type": "User"},
    }
    return json.dumps(payload).encode()


def sign(body: bytes) -> str:
    return "sha256=" + hmac.new(SECRET.encode(), body, hashlib.sha256).hexdigest()


def build_head(signature: str, length: int, number: int) -> bytes:
    return (
        "POST /webhook HTTP/1.1\r\nHost: bench\r\nContent-Type: application/json\r\n"
        f"X-GitHub-Event: issues\r\nX-GitHub-Delivery: bench-{number}\r\n"
        f"X-Hub-Signature-256: {signature}\r\nContent-Length: {length}\r\n\r\n"
    ).encode()


def build_delivery(number: int) -> bytes:
    """The bytes of an honest delivery."""
    body = label_event(number)
    return build_head(sign(body), len(body), number) + body


@dataclass
class Load:
    """What came of the deliveries of one run."""

    milliseconds: list[float] = field(default_factory=list[float])
    """From the moment that it was to be sent to the answer; waiting for one of the connections
    counts, a generator that was late does not."""
    late: list[float] = field(default_factory=list[float])
    """Milliseconds by which the generator was behind its timetable."""
    processor_seconds: float = 0.0
    """What the generator took, in a process of its own."""
    statuses: dict[int, int] = field(default_factory=dict[int, int])
    failed: int = 0
    """Without an answer."""
    seconds: float = 0.0

    @property
    def per_second(self) -> float:
        return len(self.milliseconds) / self.seconds if self.seconds else 0.0


async def send_on_timetable(port: int, deliveries: list[bytes], per_second: float) -> Load:
    """Send each at its time, whatever the answers do.

    `per_second` 0: as fast as the server answers, which is its saturation.
    """
    load, start = Load(), time.perf_counter()
    queue: asyncio.Queue[tuple[float, bytes] | None] = asyncio.Queue()
    senders = [asyncio.create_task(_send_from(queue, port, load)) for _ in range(CONNECTIONS)]
    for number, data in enumerate(deliveries):
        due = start + number / per_second if per_second else 0.0
        if (wait := due - time.perf_counter()) > 0:
            await asyncio.sleep(wait)
        clock = time.perf_counter()
        if per_second:
            load.late.append(max(0.0, clock - due) * 1000)
        queue.put_nowait((clock if per_second else 0.0, data))
    for _ in senders:
        queue.put_nowait(None)
    _, late = await asyncio.wait(senders, timeout=MOST_LATE)
    for sender in late:
        sender.cancel()
    load.failed = len(deliveries) - len(load.milliseconds)
    load.seconds = time.perf_counter() - start
    return load


async def _send_from(
    queue: asyncio.Queue[tuple[float, bytes] | None], port: int, load: Load
) -> None:
    writer: asyncio.StreamWriter | None = None
    reader: asyncio.StreamReader | None = None
    while (item := await queue.get()) is not None:
        due, data = item
        began = due or time.perf_counter()
        try:
            async with asyncio.timeout(30):
                if writer is None or reader is None or writer.is_closing() or reader.at_eof():
                    reader, writer = await asyncio.open_connection("127.0.0.1", port)
                writer.write(data)
                status = await read_answer(reader)
        except (OSError, TimeoutError, asyncio.IncompleteReadError):
            load.failed += 1
            writer = None
            continue
        load.milliseconds.append((time.perf_counter() - began) * 1000)
        load.statuses[status] = load.statuses.get(status, 0) + 1
    if writer is not None:
        writer.close()


async def read_answer(reader: asyncio.StreamReader) -> int:
    """The status of one answer, whose body is read as well."""
    head = await reader.readuntil(b"\r\n\r\n")
    length = 0
    for line in head.lower().split(b"\r\n"):
        if line.startswith(b"content-length:"):
            length = int(line.partition(b":")[2])
    await reader.readexactly(length)
    return int(head.split(b" ", 2)[1])


@asynccontextmanager
async def serve(
    argv: list[str], port: int, env: dict[str, str]
) -> AsyncGenerator[asyncio.subprocess.Process]:
    """A server in a process of its own, once it takes connections."""
    process = await asyncio.create_subprocess_exec(
        *argv, env=env, stderr=asyncio.subprocess.DEVNULL
    )
    try:
        for _ in range(2_400):
            try:
                _, writer = await asyncio.open_connection("127.0.0.1", port)
            except OSError:
                await asyncio.sleep(0.05)
            else:
                writer.close()
                break
        else:
            raise TimeoutError("the server did not start within two minutes")
        yield process
    finally:
        process.terminate()
        await process.wait()


def serve_command(port: int, redis_url: str) -> tuple[list[str], dict[str, str]]:
    """`capuchin serve` as in production: its arguments and environment."""
    environment = {
        "CAPUCHIN_WEBHOOK_SECRET": SECRET,
        "CAPUCHIN_REDIS_URL": redis_url,
        "PATH": "/usr/bin:/bin",
    }
    return [sys.executable, "-m", "bot", "serve", "--port", str(port)], environment


def resident_megabytes(pid: int) -> float:
    """Peak resident memory of a process, from proc(5)."""
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("VmHWM")) / 1024


TICKS = os.sysconf("SC_CLK_TCK")
_IDLE = (3, 4)
"""`idle` and `iowait` in the first line of /proc/stat; `guest` is part of `user`."""


class Clock(NamedTuple):
    """The processor time of one moment, in seconds."""

    at: float
    machine: float
    """Of all programs, and what the hypervisor gave to others."""
    process: float

    @classmethod
    def read(cls, pid: int) -> "Clock":
        fields = Path("/proc/stat").read_text().partition("\n")[0].split()[1:9]
        machine = sum(int(ticks) for at, ticks in enumerate(fields) if at not in _IDLE)
        return cls(time.monotonic(), machine / TICKS, read_processor_seconds(pid))

    def since(self, earlier: "Clock") -> "Clock":
        return Clock(*(now - then for now, then in zip(self, earlier, strict=True)))


def read_processor_seconds(pid: int) -> float:
    """What a process has taken, without its children."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / TICKS
