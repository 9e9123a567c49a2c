"""Lets the first of many questions with a shared opening finish before the rest are asked."""

from __future__ import annotations

import asyncio

from pipeline.models.base import Model, ModelRequest, Reply
from pipeline.models.wrappers.base import ModelWrapper


class CacheWarmup(ModelWrapper):
    """A model whose first call runs alone, so that a prompt cache is written once, then read.

    Providers make a cached prefix visible when the call that wrote it answers; calls side by side
    would each pay for writing it. If the first call fails, the rest go ahead all the same.
    """

    def __init__(self, model: Model) -> None:
        super().__init__(model)
        self._started = False
        self._done = asyncio.Event()

    async def complete(self, request: ModelRequest) -> Reply:
        first, self._started = not self._started, True
        if not first:
            await self._done.wait()
        try:
            return await self.model.complete(request)
        finally:
            self._done.set()
