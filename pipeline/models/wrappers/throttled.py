"""Limits how many calls run at a time, and retries while a service is briefly unavailable."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from pipeline.models.base import Model, ModelRequest, ModelUnavailable, Reply
from pipeline.models.wrappers.base import ModelWrapper

RETRY_WAITS = (1.0, 4.0, 15.0)
"""Seconds before each further attempt, beside the two quick retries of the SDK itself."""


class ThrottledModel(ModelWrapper):
    """A `Model` with at most `limit` parallel calls; raises ModelUnavailable only after every wait.

    Models that are given the same semaphore share its slots.
    """

    def __init__(
        self, model: Model, limit: int | asyncio.Semaphore, *, waits: Sequence[float] = RETRY_WAITS
    ) -> None:
        super().__init__(model)
        self._slots = asyncio.Semaphore(limit) if isinstance(limit, int) else limit
        self._waits = tuple(waits)

    async def complete(self, request: ModelRequest) -> Reply:
        # The slot is kept during a wait, so that a service in trouble receives fewer calls. Not
        # stamina: it computes its waits, and these are a list that `AdaptiveModel` shares.
        async with self._slots:
            for wait in self._waits:
                try:
                    return await self.model.complete(request)
                except ModelUnavailable:
                    await asyncio.sleep(wait)
            return await self.model.complete(request)
