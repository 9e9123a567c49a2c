"""Logs where the event loop is blocked: the rest of the process waits meanwhile."""

from __future__ import annotations

import asyncio
import logging
import sys
import threading
import time
import traceback
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Final

STALL_SECONDS: Final = 0.25
_TICKS: Final = 5
"""How often the loop is pinged within `STALL_SECONDS`."""
_FRAMES: Final = 12
"""The innermost frames of a stack that are logged."""

logger = logging.getLogger(__name__)


@asynccontextmanager
async def watch_loop(seconds: float = STALL_SECONDS) -> AsyncGenerator[None]:
    """While the block runs, a thread logs the loop's stack if the loop does not respond for
    `seconds`.

    It logs one line for each stall, and one with its duration afterwards.
    """
    loop, owner = asyncio.get_running_loop(), threading.get_ident()
    done = threading.Event()
    thread = threading.Thread(
        target=_watch, args=(loop, owner, done, seconds), name="watchdog", daemon=True
    )
    thread.start()
    try:
        yield
    finally:
        done.set()


def _watch(
    loop: asyncio.AbstractEventLoop, owner: int, done: threading.Event, seconds: float
) -> None:
    while not done.wait(seconds / _TICKS):
        answered = threading.Event()
        began = time.monotonic()
        try:
            loop.call_soon_threadsafe(answered.set)
        except RuntimeError:  # the loop is closed
            return
        if answered.wait(seconds):
            continue
        stack = _render_stack(owner)
        logger.warning("The event loop has been blocked for %.2f s:\n%s", seconds, stack)
        while not answered.wait(seconds):
            if done.is_set():
                return
        logger.warning("The event loop resumed after %.2f s.", time.monotonic() - began)


def _render_stack(owner: int) -> str:
    frame = sys._current_frames().get(owner)  # pyright: ignore[reportPrivateUsage]
    return "".join(traceback.format_stack(frame)[-_FRAMES:]) if frame else "(no stack)"
