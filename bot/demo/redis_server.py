"""A private Redis on a free port, stopped when the demo ends."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path

from bot.demo.package import DemoFailed

_START_SECONDS = 10.0


@asynccontextmanager
async def run_redis(folder: Path) -> AsyncGenerator[str, None]:
    """Run `redis-server` with its files in `folder` until the block ends; yields its address.

    Raises:
        DemoFailed: it is not installed or does not start.
    """
    port = find_free_port()
    argv = ["redis-server", "--port", str(port), "--bind", "127.0.0.1", "--save", "",
            "--appendonly", "no", "--dir", str(folder)]  # fmt: skip
    try:
        process = await asyncio.create_subprocess_exec(*argv, stdout=asyncio.subprocess.DEVNULL)
    except FileNotFoundError:
        raise DemoFailed("redis-server is not installed; `make demo` installs it.") from None
    try:
        await _wait_until_up(process, port)
        yield f"redis://127.0.0.1:{port}/0"
    finally:
        if process.returncode is None:
            process.terminate()
        await process.wait()


def find_free_port() -> int:
    """A port that is free at this moment."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


async def _wait_until_up(process: asyncio.subprocess.Process, port: int) -> None:
    try:
        async with asyncio.timeout(_START_SECONDS):
            while process.returncode is None:
                try:
                    _, writer = await asyncio.open_connection("127.0.0.1", port)
                except OSError:
                    await asyncio.sleep(0.02)
                else:
                    writer.close()
                    return
    except TimeoutError:
        pass
    raise DemoFailed("redis-server started but does not respond; try again.")
