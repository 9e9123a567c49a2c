"""Which steps of a run are under way, so that a worker that stops lets them end."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Generator
from contextlib import asynccontextmanager, contextmanager
from typing import Final

QUIET_SECONDS: Final = 0.1
"""For a task to go from one thing that counts to the next."""


class InFlightWork:
    """Counts what would be lost if the run were cancelled now."""

    def __init__(self) -> None:
        self._under_way = 0
        self._unsaved: set[asyncio.Task[object]] = set()
        """Those that were answered and have not saved the answer."""
        self._closing = False
        self._changed = asyncio.Event()

    @asynccontextmanager
    async def billable(self) -> AsyncGenerator[None]:
        """Around what costs money. Once the worker is stopping, nothing new begins: it waits.

        A paid answer counts as work in flight until its task has called `mark_saved` or has ended.
        """
        self.mark_saved()
        if self._closing:
            await asyncio.Event().wait()
        with self.uncancellable():
            yield
            self._unsaved.add(task := _current_task())
            task.add_done_callback(self._forget)

    def mark_saved(self) -> None:
        """What the current task was answered is kept."""
        self._forget(_current_task())

    @contextmanager
    def uncancellable(self) -> Generator[None]:
        """Around what ends soon and should not be cut: saving a result, an effect at GitHub."""
        self._count(+1)
        try:
            yield
        finally:
            self._count(-1)

    async def wait_until_idle(self) -> None:
        """Let nothing new begin; return when what is under way has ended and been saved."""
        self._closing = True
        while True:
            self._changed.clear()
            try:
                busy = self._under_way or self._unsaved
                async with asyncio.timeout(None if busy else QUIET_SECONDS):
                    await self._changed.wait()
            except TimeoutError:
                return

    def _forget(self, task: asyncio.Task[object]) -> None:
        self._unsaved.discard(task)
        self._changed.set()

    def _count(self, change: int) -> None:
        self._under_way += change
        self._changed.set()


def _current_task() -> asyncio.Task[object]:
    task = asyncio.current_task()
    assert task is not None
    return task
