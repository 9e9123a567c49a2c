"""Bounds how many calls run at a time, and waits out a service that is down for a moment."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from pipeline.models.base import Message, Model, ModelProfile, ModelUnavailable, Reply

WAITS = (1.0, 4.0, 15.0)
"""Seconds before each further attempt, beside the two quick retries of the SDK itself."""


class Throttled:
    """A `Model` with at most `limit` calls in flight.

    Give several the same semaphore and they share its slots.
    """

    def __init__(
        self, model: Model, limit: int | asyncio.Semaphore, *, waits: Sequence[float] = WAITS
    ) -> None:
        self._model = model
        self._slots = asyncio.Semaphore(limit) if isinstance(limit, int) else limit
        self._waits = tuple(waits)

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
        """See `Model.complete`. ModelUnavailable is raised only after every wait."""
        # The slot is kept while waiting: a service in trouble shall hear less of us, not more.
        async with self._slots:
            for wait in self._waits:
                try:
                    return await self._model.complete(
                        system, messages, call=call, temperature=temperature, max_tokens=max_tokens
                    )
                except ModelUnavailable:
                    await asyncio.sleep(wait)
            return await self._model.complete(
                system, messages, call=call, temperature=temperature, max_tokens=max_tokens
            )
