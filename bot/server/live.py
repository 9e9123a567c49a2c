"""A run's page while it works: server-sent events with what has changed."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncGenerator, Awaitable, Callable
from typing import Final

from starlette.requests import Request

from bot.storage.client import REDIS_ERRORS
from bot.storage.storage import Storage
from bot.types import Run, RunId
from pipeline.errors import UnreadableRecord

MAX_STREAMS: Final = 64
"""Open at one time in this process, so that webhooks find room; later pages reload instead."""
LOOK_SECONDS: Final = 2.0
STREAM_SECONDS: Final = 600.0
"""A browser opens the next stream by itself."""
QUIET_SECONDS: Final = 15.0
"""After so long a line without meaning keeps proxies from closing the stream."""

Render = Callable[[Run], Awaitable[str]]


class LiveStreams:
    """All streams of this process."""

    def __init__(self, storage: Storage) -> None:
        self._storage = storage
        self._open = 0

    @property
    def is_full(self) -> bool:
        return self._open >= MAX_STREAMS

    async def stream(self, request: Request, run_id: RunId, render: Render) -> AsyncGenerator[str]:
        """An `update` whenever `render` of the run gives another text, and an `end` at its end."""
        self._open += 1
        try:
            async for event in self._follow(run_id, render):
                if await request.is_disconnected():
                    return
                if event:
                    yield event
        finally:
            self._open -= 1

    async def _follow(self, run_id: RunId, render: Render) -> AsyncGenerator[str]:
        """An event, or an empty text where nothing is new."""
        ends_at, shown, spoke_at = time.monotonic() + STREAM_SECONDS, "", time.monotonic()
        while time.monotonic() < ends_at:
            event = ""
            try:
                run = await self._storage.runs.get(run_id)
                if run is None or run.status.final:
                    yield _format("end", "")
                    return
                text = await render(run)
                if text != shown:
                    event, shown = _format("update", text), text
            except (*REDIS_ERRORS, UnreadableRecord):  # the next look may tell more
                pass
            if not event and time.monotonic() - spoke_at >= QUIET_SECONDS:
                event = ": still here\n\n"
            if event:
                spoke_at = time.monotonic()
            yield event
            await asyncio.sleep(LOOK_SECONDS)


def _format(name: str, data: str) -> str:
    lines = "".join(f"data: {line}\n" for line in data.splitlines()) or "data:\n"
    return f"event: {name}\n{lines}\n"
