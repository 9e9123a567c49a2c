"""A private Redis on a free port, stopped when the demo ends."""

from __future__ import annotations

import asyncio
import secrets
import shutil
import socket
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager, suppress
from pathlib import Path

from bot.demo.package import DemoFailed
from bot.storage.client import UNREACHABLE
from bot.storage.storage import Storage

_START_SECONDS = 10.0
_ANSWER_SECONDS = 5.0
_DUMP = "dump.rdb"
_PORTS = range(15_000, 30_000)
"""Below those that Linux (from 32768 on) and macOS (49152) choose themselves."""


@asynccontextmanager
async def run_redis(folder: Path, prefix: str, findings: Path) -> AsyncGenerator[str, None]:
    """Run `redis-server` with its files in `folder` until the block ends; yields its address.

    It begins with what earlier demos found out about the environment's image, as a bot in use
    would; the file `findings` keeps that, and nothing else. `prefix` is that of every key.

    Raises:
        DemoFailed: it is not installed or does not start.
    """
    port = find_free_port()
    url = f"redis://127.0.0.1:{port}/0"
    process = await _start(port, folder, findings)
    try:
        yield url
        with suppress(OSError, *UNREACHABLE):  # then the next demo starts without
            await _keep_findings(url, prefix, folder / _DUMP, findings)
    finally:
        if process.returncode is None:
            process.terminate()
        await process.wait()


async def _start(port: int, folder: Path, findings: Path) -> asyncio.subprocess.Process:
    with suppress(OSError):
        await asyncio.to_thread(shutil.copyfile, findings, folder / _DUMP)
    process = await _launch(port, folder)
    if await _is_up(process, port):
        return process
    if process.returncode is not None and await asyncio.to_thread((folder / _DUMP).exists):
        # Perhaps another version of Redis wrote the findings.
        await asyncio.to_thread((folder / _DUMP).unlink)
        process = await _launch(port, folder)
        if await _is_up(process, port):
            return process
    if process.returncode is None:
        process.terminate()
    await process.wait()
    raise DemoFailed("redis-server started but does not respond; try again.")


async def _launch(port: int, folder: Path) -> asyncio.subprocess.Process:
    argv = ["redis-server", "--port", str(port), "--bind", "127.0.0.1", "--save", "",
            "--appendonly", "no", "--dir", str(folder), "--dbfilename", _DUMP]  # fmt: skip
    try:
        return await asyncio.create_subprocess_exec(
            *argv,
            stdout=asyncio.subprocess.DEVNULL,
            start_new_session=True,  # Ctrl-C is for us: we stop it last
        )
    except FileNotFoundError:
        raise DemoFailed("redis-server is not installed; `make demo` installs it.") from None


async def _keep_findings(url: str, prefix: str, dump: Path, findings: Path) -> None:
    async with Storage.open(url, prefix, timeout=_ANSWER_SECONDS) as storage:
        await storage.save_only_findings()
    new = findings.with_suffix(".new")
    await asyncio.to_thread(shutil.copyfile, dump, new)
    await asyncio.to_thread(new.replace, findings)


def find_free_port() -> int:
    """A port that is free at this moment.

    The system gives it to nobody who asks for any port, before who asked here has taken it.
    """
    while True:
        port = _PORTS.start + secrets.randbelow(len(_PORTS))
        with suppress(OSError), socket.socket() as probe:
            probe.bind(("127.0.0.1", port))
            return port


async def _is_up(process: asyncio.subprocess.Process, port: int) -> bool:
    with suppress(TimeoutError):
        async with asyncio.timeout(_START_SECONDS):
            while process.returncode is None:
                try:
                    _, writer = await asyncio.open_connection("127.0.0.1", port)
                except OSError:
                    await asyncio.sleep(0.02)
                else:
                    writer.close()
                    return True
    return False
