"""Ends a process that this program started in a session of its own."""

from __future__ import annotations

import asyncio
import os
import signal
from contextlib import suppress


async def kill_session(
    process: asyncio.subprocess.Process, *readers: asyncio.Future[bytes]
) -> None:
    """Kill the process and its children, and wait until it has ended.

    `readers` are the tasks that read its output; they are cancelled. What is left of its output is
    read and thrown away: asyncio waits for the end of each pipe, and does not see it while a full
    buffer pauses the reading (https://github.com/python/cpython/issues/119710).
    """
    runs = process.returncode is None
    if runs:
        with suppress(ProcessLookupError):  # it has ended, and the loop does not know yet
            os.killpg(process.pid, signal.SIGKILL)
    for reader in readers:
        reader.cancel()
    if readers:
        await asyncio.wait(readers)
    if runs:
        await process.communicate()
