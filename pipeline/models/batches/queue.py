"""Sends batches and remembers them: a crash at any moment has none sent twice."""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from datetime import UTC, datetime, timedelta
from typing import TypeVar

from pydantic import Field

from pipeline.models.base import (
    ModelError,
    ModelMisconfigured,
    ModelRequest,
    ModelRetired,
    ModelUnavailable,
    Reply,
)
from pipeline.models.batches.service import MARK_LENGTH, BatchService, add_mark
from pipeline.store import Store
from pipeline.types import Frozen, replace

BATCHES_KEY = "batches"
POLL_SECONDS = 1.0
"""Before the second look at a batch; then twice as long each time, up to `MAX_POLL_SECONDS`."""
MAX_POLL_SECONDS = 60.0
MAX_BATCH_SIZE = 1000
"""Questions in one batch, so that it stays far below the provider's limits of size."""
MAX_FAILED_POLLS = 10
"""So many polls in a row that nobody answers are too many."""
SUBMIT_ATTEMPTS = 3
"""How often a batch that the service did not take is sent."""
CLOCK_SKEW = timedelta(minutes=10)
"""How far the service's clock may be from ours."""
SUBMIT_DURATION = timedelta(hours=1)
"""Longer than the sending of one batch can take."""
T = TypeVar("T")


class Intent(Frozen):
    """A batch that is about to be sent, or was: nobody knows until its id is kept."""

    mark: str
    """Drawn for it alone; each name in the batch ends with it."""
    at: datetime
    names: tuple[str, ...]


class Batches(Frozen):
    """Which batches were sent, so that after a crash they are waited for and not sent again."""

    batch_ids: dict[str, str] = Field(default_factory=dict[str, str])
    """By the name of a question: the id of the batch it was sent in."""
    intents: tuple[Intent, ...] = ()


class BatchQueue:
    """The batches of one run. Kept first is what will be sent, then it is sent, then its id kept.

    What a crash left without an id is looked for among the batches that the service has: one that
    was taken at that time, with so many questions. A service tells the names of questions only
    when a batch has ended, so such a batch is waited for; without our mark it is somebody else's.
    """

    def __init__(
        self,
        service: BatchService,
        store: Store,
        poll: float,
        uncancellable: Callable[[], AbstractContextManager[None]],
    ) -> None:
        self._service = service
        self._store = store
        self._poll = poll
        self._uncancellable = uncancellable
        self._sending = asyncio.Lock()
        self._resolving = asyncio.Lock()
        self._in_flight: set[str] = set()
        """Marks of intents of which it will be known in a moment what came of them."""

    async def submit_new(self, requests: Mapping[str, ModelRequest]) -> dict[str, list[str]]:
        """The names by batch; those that are in none yet are sent.

        Raises:
            ModelError: a batch was not taken.
        """
        failure: ModelUnavailable | None = None
        for pause in (*(self._poll * 2**tried for tried in range(SUBMIT_ATTEMPTS)), None):
            await self._resolve_intents()
            async with self._sending:
                known = (await self._load()).batch_ids
                new = [name for name in requests if name not in known]
                if new and pause is None and failure:
                    raise failure
                try:
                    for start in range(0, len(new), MAX_BATCH_SIZE):
                        await self._submit(
                            {n: requests[n] for n in new[start : start + MAX_BATCH_SIZE]}
                        )
                    break
                except ModelUnavailable as error:
                    failure = error
            await asyncio.sleep(pause or 0)
        known = (await self._load()).batch_ids
        batches: dict[str, list[str]] = {}
        for name in requests:
            batches.setdefault(known[name], []).append(name)
        return batches

    async def forget(self, names: Sequence[str]) -> None:
        """Asked again, they go into another batch."""
        async with self._sending:
            kept = await self._load()
            of = {name: batch for name, batch in kept.batch_ids.items() if name not in names}
            await self._store.save(BATCHES_KEY, replace(kept, batch_ids=of))

    async def wait_for_results(self, batch: str) -> dict[str, Reply | ModelError]:
        """Its answers, by the names as they were sent; none when the service does not know it.

        Raises:
            ModelUnavailable: the service was away for too long.
        """
        pause = self._poll
        while True:
            try:
                answers = await self._retry(lambda: self._service.fetch_results(batch))
            except ModelRetired:
                return {}
            if answers is not None:
                return answers
            await asyncio.sleep(pause)
            pause = min(2 * pause, MAX_POLL_SECONDS)

    async def _submit(self, part: Mapping[str, ModelRequest]) -> None:
        """Raises ModelUnavailable also when nobody knows whether it was taken."""
        intent = Intent(
            mark=secrets.token_hex(MARK_LENGTH // 2), at=datetime.now(UTC), names=(*part,)
        )
        self._in_flight.add(intent.mark)
        try:
            with self._uncancellable():
                kept = await self._load()
                intents = (*kept.intents, intent)
                await self._store.save(BATCHES_KEY, replace(kept, intents=intents))
                sent = {add_mark(name, intent.mark): request for name, request in part.items()}
                await self._close_intent(intent, await self._service.submit(sent))
        except ModelUnavailable:
            raise
        except ModelError:
            await self._close_intent(intent, None)
            raise
        finally:
            self._in_flight.discard(intent.mark)

    async def _resolve_intents(self) -> None:
        """Of every intent it becomes known whether it was taken."""
        async with self._resolving:
            for intent in (await self._load()).intents:
                if intent.mark not in self._in_flight:
                    batch = await self._find_batch(intent)
                    async with self._sending:
                        await self._close_intent(intent, batch)

    async def _find_batch(self, intent: Intent) -> str | None:
        """The batch that was sent with this intent, if it was taken and can be looked for."""
        since, until = intent.at - CLOCK_SKEW, intent.at + SUBMIT_DURATION
        known = set((await self._load()).batch_ids.values())
        try:
            taken = await self._retry(lambda: self._service.list_batches(since, until))
        except ModelMisconfigured:  # a gateway that takes batches and lists none
            return None
        for batch in taken:
            if batch.id in known or batch.requests != len(intent.names):
                continue
            if any(
                sent.endswith(f"-{intent.mark}") for sent in await self.wait_for_results(batch.id)
            ):
                return batch.id
        return None

    async def _close_intent(self, intent: Intent, batch: str | None) -> None:
        """What came of it is kept; None: it was not taken."""
        kept = await self._load()
        of = kept.batch_ids | dict.fromkeys(intent.names, batch) if batch else kept.batch_ids
        left = tuple(one for one in kept.intents if one.mark != intent.mark)
        await self._store.save(BATCHES_KEY, Batches(batch_ids=of, intents=left))

    async def _load(self) -> Batches:
        return await self._store.load(BATCHES_KEY, Batches) or Batches()

    async def _retry(self, call: Callable[[], Awaitable[T]]) -> T:
        """Raises what `call` does, ModelUnavailable only after `MAX_FAILED_POLLS` times."""
        pause = self._poll
        for _ in range(MAX_FAILED_POLLS - 1):
            try:
                return await call()
            except ModelUnavailable:
                await asyncio.sleep(pause)
                pause = min(2 * pause, MAX_POLL_SECONDS)
        return await call()
