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
    ModelRetired,
    ModelUnavailable,
    Reply,
)
from pipeline.models.batches.service import MARK, BatchService, marked
from pipeline.models.wrappers.base import Question
from pipeline.store import Store
from pipeline.types import Frozen

BATCHES_KEY = "batches"
POLL_SECONDS = 1.0
"""Before the second look at a batch; then twice as long each time, up to `LONGEST_POLL`."""
LONGEST_POLL = 60.0
MOST = 1000
"""Questions in one batch, so that it stays far below the provider's limits of size."""
PATIENCE = 10
"""So many polls in a row that nobody answers are too many."""
TRIES = 3
"""How often a batch that the service did not take is sent."""
CLOCKS = timedelta(minutes=10)
"""How far the service's clock may be from ours."""
SENDING = timedelta(hours=1)
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

    of: dict[str, str] = Field(default_factory=dict[str, str])
    """By the name of a question: the id of the batch it was sent in."""
    intents: tuple[Intent, ...] = ()


class Post:
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
        brief: Callable[[], AbstractContextManager[None]],
    ) -> None:
        self._service = service
        self._store = store
        self._poll = poll
        self._brief = brief
        self._sending = asyncio.Lock()
        self._seeking = asyncio.Lock()
        self._under_way: set[str] = set()
        """Marks of intents of which it will be known in a moment what came of them."""

    async def sent(self, questions: Mapping[str, Question]) -> dict[str, list[str]]:
        """The names by batch; those that are in none yet are sent.

        Raises:
            ModelError: a batch was not taken.
        """
        failure: ModelUnavailable | None = None
        for pause in (*(self._poll * 2**tried for tried in range(TRIES)), None):
            await self._settled()
            async with self._sending:
                known = (await self._kept()).of
                new = [name for name in questions if name not in known]
                if new and pause is None and failure:
                    raise failure
                try:
                    for start in range(0, len(new), MOST):
                        await self._send({n: questions[n] for n in new[start : start + MOST]})
                    break
                except ModelUnavailable as error:
                    failure = error
            await asyncio.sleep(pause or 0)
        known = (await self._kept()).of
        batches: dict[str, list[str]] = {}
        for name in questions:
            batches.setdefault(known[name], []).append(name)
        return batches

    async def forget(self, names: Sequence[str]) -> None:
        """Asked again, they go into another batch."""
        async with self._sending:
            kept = await self._kept()
            of = {name: batch for name, batch in kept.of.items() if name not in names}
            await self._store.save(BATCHES_KEY, kept.model_copy(update={"of": of}))

    async def ended(self, batch: str) -> dict[str, Reply | ModelError]:
        """Its answers, by the names as they were sent; none when the service does not know it.

        Raises:
            ModelUnavailable: the service was away for too long.
        """
        pause = self._poll
        while True:
            try:
                answers = await self._patiently(lambda: self._service.collected(batch))
            except ModelRetired:
                return {}
            if answers is not None:
                return answers
            await asyncio.sleep(pause)
            pause = min(2 * pause, LONGEST_POLL)

    async def _send(self, part: Mapping[str, Question]) -> None:
        """Raises ModelUnavailable also when nobody knows whether it was taken."""
        intent = Intent(mark=secrets.token_hex(MARK // 2), at=datetime.now(UTC), names=(*part,))
        self._under_way.add(intent.mark)
        try:
            with self._brief():
                kept = await self._kept()
                intents = (*kept.intents, intent)
                await self._store.save(BATCHES_KEY, kept.model_copy(update={"intents": intents}))
                sent = {marked(name, intent.mark): question for name, question in part.items()}
                await self._close(intent, await self._service.submit(sent))
        except ModelUnavailable:
            raise
        except ModelError:
            await self._close(intent, None)
            raise
        finally:
            self._under_way.discard(intent.mark)

    async def _settled(self) -> None:
        """Of every intent it becomes known whether it was taken."""
        async with self._seeking:
            for intent in (await self._kept()).intents:
                if intent.mark not in self._under_way:
                    batch = await self._found(intent)
                    async with self._sending:
                        await self._close(intent, batch)

    async def _found(self, intent: Intent) -> str | None:
        """The batch that was sent with this intent, if it was taken and can be looked for."""
        since, until = intent.at - CLOCKS, intent.at + SENDING
        known = set((await self._kept()).of.values())
        try:
            taken = await self._patiently(lambda: self._service.taken(since, until))
        except ModelMisconfigured:  # a gateway that takes batches and lists none
            return None
        for batch in taken:
            if batch.id in known or batch.questions != len(intent.names):
                continue
            if any(sent.endswith(f"-{intent.mark}") for sent in await self.ended(batch.id)):
                return batch.id
        return None

    async def _close(self, intent: Intent, batch: str | None) -> None:
        """What came of it is kept; None: it was not taken."""
        kept = await self._kept()
        of = kept.of | dict.fromkeys(intent.names, batch) if batch else kept.of
        left = tuple(one for one in kept.intents if one.mark != intent.mark)
        await self._store.save(BATCHES_KEY, Batches(of=of, intents=left))

    async def _kept(self) -> Batches:
        return await self._store.load(BATCHES_KEY, Batches) or Batches()

    async def _patiently(self, call: Callable[[], Awaitable[T]]) -> T:
        """Raises what `call` does, ModelUnavailable only after `PATIENCE` times."""
        pause = self._poll
        for _ in range(PATIENCE - 1):
            try:
                return await call()
            except ModelUnavailable:
                await asyncio.sleep(pause)
                pause = min(2 * pause, LONGEST_POLL)
        return await call()
