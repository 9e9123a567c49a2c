"""Lets the first of many questions with a shared opening finish before the rest are asked."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from pipeline.models.base import Message, Model, ModelProfile, Reply


class HeadStart:
    """A model whose first call runs alone, so that a prompt cache is written once, then read.

    Providers make a cached prefix visible when the call that wrote it answers; calls side by side
    would each pay for writing it. If the first call fails, the rest go ahead all the same.
    """

    def __init__(self, model: Model) -> None:
        self._model = model
        self._begun = False
        self._done = asyncio.Event()

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
        """As the model itself, after the first call has ended."""
        first, self._begun = not self._begun, True
        if not first:
            await self._done.wait()
        try:
            return await self._model.complete(
                system, messages, call=call, temperature=temperature, max_tokens=max_tokens
            )
        finally:
            self._done.set()
