"""Which steps of a run are under way, so that a worker told to stop lets them end."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Generator, Sequence
from contextlib import asynccontextmanager, contextmanager
from typing import Final

from pipeline.models.base import Message, Model, ModelProfile, Reply

QUIET_SECONDS: Final = 0.1  # between a reply and the saving of it nothing is counted


class Steps:
    """Counts what would be lost if the run were cancelled now."""

    def __init__(self) -> None:
        self._under_way = 0
        self._closing = False
        self._changed = asyncio.Event()

    @asynccontextmanager
    async def paid(self) -> AsyncGenerator[None]:
        """Around what costs money. Once the worker is stopping, nothing new begins: it parks."""
        if self._closing:
            await asyncio.Event().wait()
        with self.short():
            yield

    @contextmanager
    def short(self) -> Generator[None]:
        """Around what ends soon and should not be cut: saving a result, an effect at GitHub."""
        self._count(+1)
        try:
            yield
        finally:
            self._count(-1)

    async def drained(self) -> None:
        """Let nothing new begin; return when what is under way has ended and been saved."""
        self._closing = True
        while True:
            self._changed.clear()
            try:
                async with asyncio.timeout(None if self._under_way else QUIET_SECONDS):
                    await self._changed.wait()
            except TimeoutError:
                return

    def _count(self, change: int) -> None:
        self._under_way += change
        self._changed.set()


class PausableModel:
    """A model whose calls a stopping worker waits for. Put it nearest to the client."""

    def __init__(self, model: Model, steps: Steps) -> None:
        self._model = model
        self._steps = steps

    @property
    def profile(self) -> ModelProfile:
        return self._model.profile

    async def complete(
        self,
        system: str,
        messages: Sequence[Message],
        *,
        call: str,
        temperature: float | None = None,
        max_tokens: int | None = None,
    ) -> Reply:
        """As the model's own; see `pipeline.models.base.Model`."""
        async with self._steps.paid():
            return await self._model.complete(
                system, messages, call=call, temperature=temperature, max_tokens=max_tokens
            )
