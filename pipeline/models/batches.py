"""Sends batches and records them, so that a crash at any moment sends none twice."""

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
"""The first wait between polls; each further wait doubles, up to `MAX_POLL_SECONDS`."""
MAX_POLL_SECONDS = 60.0
MAX_BATCH_SIZE = 1000
"""Requests in one batch, far below the provider's size limits."""
MAX_FAILED_POLLS = 10
"""Polls in a row that may fail before we give up."""
SUBMIT_ATTEMPTS = 3
"""How often we send a batch that the service rejects."""
CLOCK_SKEW = timedelta(minutes=10)
"""How far the service's clock may be from ours."""
SUBMIT_DURATION = timedelta(hours=1)
"""Longer than sending one batch can take."""
T = TypeVar("T")


class Intent(Frozen):
    """A batch that is about to be sent or has been; we do not know which until its id is saved."""

    mark: str
    """A random mark of this batch; each request name in the batch ends with it."""
    at: datetime
    names: tuple[str, ...]


class Batches(Frozen):
    """The batches that were sent: after a crash we wait for them instead of sending them again."""

    batch_ids: dict[str, str] = Field(default_factory=dict[str, str])
    """The batch id of each request, by request name."""
    intents: tuple[Intent, ...] = ()


class BatchQueue:
    """The batches of one run: save the intent, send the batch, save its id.

    If a crash leaves an intent without an id, we look for it among the service's batches: one that
    was submitted at that time with as many requests. Services reveal request names only when a
    batch has ended, so we wait for such a batch; without our mark it belongs to somebody else.
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
        """Marks of the intents that this process is sending right now."""

    async def submit_new(self, requests: Mapping[str, ModelRequest]) -> dict[str, list[str]]:
        """The request names by batch id; requests that are in no batch yet are sent.

        Raises:
            ModelError: the service rejected a batch.
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
        """Forget which batch these requests were in; repeated, they go into a new one."""
        async with self._sending:
            kept = await self._load()
            of = {name: batch for name, batch in kept.batch_ids.items() if name not in names}
            await self._store.save(BATCHES_KEY, replace(kept, batch_ids=of))

    async def wait_for_results(self, batch: str) -> dict[str, Reply | ModelError]:
        """The replies by the names they were sent under; empty if the service has no such batch.

        Raises:
            ModelUnavailable: the service was unreachable for too long.
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
        """Raises ModelUnavailable also when we cannot know whether the service accepted it."""
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
        """Find out for every intent whether its batch was accepted."""
        async with self._resolving:
            for intent in (await self._load()).intents:
                if intent.mark not in self._in_flight:
                    batch = await self._find_batch(intent)
                    async with self._sending:
                        await self._close_intent(intent, batch)

    async def _find_batch(self, intent: Intent) -> str | None:
        """The id of the batch sent with this intent, if it was accepted and can be listed."""
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
        """Record the outcome of an intent; None: the batch was not accepted."""
        kept = await self._load()
        of = kept.batch_ids | dict.fromkeys(intent.names, batch) if batch else kept.batch_ids
        left = tuple(one for one in kept.intents if one.mark != intent.mark)
        await self._store.save(BATCHES_KEY, Batches(batch_ids=of, intents=left))

    async def _load(self) -> Batches:
        return await self._store.load(BATCHES_KEY, Batches) or Batches()

    async def _retry(self, call: Callable[[], Awaitable[T]]) -> T:
        """Raises what `call` raises; ModelUnavailable only after `MAX_FAILED_POLLS` attempts."""
        pause = self._poll
        for _ in range(MAX_FAILED_POLLS - 1):
            try:
                return await call()
            except ModelUnavailable:
                await asyncio.sleep(pause)
                pause = min(2 * pause, MAX_POLL_SECONDS)
        return await call()
