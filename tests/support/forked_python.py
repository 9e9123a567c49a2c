"""Runs Python programs in forks of one process that has pytest loaded: each starts at once."""

from __future__ import annotations

import asyncio
import atexit
import json
import os
import signal
import socket
import subprocess
import sys
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import ExitStack, asynccontextmanager, suppress
from functools import cache
from pathlib import Path
from typing import IO

from pipeline.concurrency import shield
from tests.support import fork_server

ENVIRONMENT = {
    "PATH": "/usr/bin:/bin",
    "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1",  # ours take a second to load
    "PYTHONHASHSEED": "0",
}


@cache
def _start_server() -> socket.socket:
    """Start the process that forks; it ends with this one. Returns the connection to it."""
    ours, theirs = socket.socketpair()
    with theirs:
        server = subprocess.Popen(
            [sys.executable, fork_server.__file__, str(theirs.fileno())],
            env=ENVIRONMENT,
            pass_fds=[theirs.fileno()],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
        )

    def stop() -> None:
        ours.close()
        server.wait()

    atexit.register(stop)
    return ours


async def run_forked(
    argv: Sequence[str], folder: Path, seconds: float, env: Mapping[str, str]
) -> tuple[int, bytes]:
    """Run `argv` in `folder`; return its exit code (a signal's is negative) and output.

    A cancelled call kills it too.

    Raises:
        TimeoutError: it took more than `seconds`, and was killed.
    """
    request = os.memfd_create("request")
    os.write(request, json.dumps({"argv": argv, "folder": str(folder), "env": env}).encode())
    os.lseek(request, 0, os.SEEK_SET)
    (output, writing), (status, reporting) = os.pipe(), os.pipe()
    with (
        ExitStack() as sent,
        os.fdopen(status, "rb", 0) as reports,
        os.fdopen(output, "rb", 0) as outputs,
    ):
        for fd in (request, writing, reporting):
            sent.callback(os.close, fd)
        async with _reader_of(reports) as report, _reader_of(outputs) as found:
            socket.send_fds(_start_server(), [b"."], [request, writing, reporting])
            sent.close()  # from here on there is a process, whatever becomes of this call
            pid = b""
            try:
                pid = await report.readline()
                async with asyncio.timeout(seconds):
                    data = await found.read()
                    return int(await report.readline()), data
            except (TimeoutError, asyncio.CancelledError):
                pid = pid or await shield(report.readline())
                with suppress(ProcessLookupError):
                    os.kill(int(pid), signal.SIGKILL)
                await shield(report.readline())  # until it is gone: its folder goes next
                raise


@asynccontextmanager
async def _reader_of(pipe: IO[bytes]) -> AsyncGenerator[asyncio.StreamReader]:
    reader = asyncio.StreamReader()
    transport, _ = await asyncio.get_running_loop().connect_read_pipe(
        lambda: asyncio.StreamReaderProtocol(reader), pipe
    )
    try:
        yield reader
    finally:
        transport.close()
