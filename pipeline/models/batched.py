"""Asks what opens a conversation in batches, where a provider has a lower price for them."""

from __future__ import annotations

import asyncio
import hashlib
import re
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, nullcontext
from typing import Protocol, runtime_checkable

from pydantic import Field

from pipeline.models.base import (
    Model,
    ModelError,
    ModelProfile,
    ModelRetired,
    ModelUnavailable,
    Reply,
)
from pipeline.models.wrapping import Answering, Question, Wrapper
from pipeline.store import Store
from pipeline.types import Frozen

BATCHES_KEY = "batches"
BATCH_SECONDS = 25 * 3600.0
"""The longest that a batch takes: Anthropic gives up after a day.

https://platform.claude.com/docs/en/build-with-claude/batch-processing
"""
LINGER_SECONDS = 2.0
"""How long questions are collected before they are sent together."""
POLL_SECONDS = 1.0
"""Before the second look at a batch; then twice as long each time, up to `LONGEST_POLL`."""
LONGEST_POLL = 60.0
MOST = 1000
"""Questions in one batch, so that it stays far below the provider's limits of size."""
PATIENCE = 10
"""So many polls in a row that nobody answers are too many."""
_CALL, _DIGEST = 30, 24
"""Characters of a question's name within its batch, of which 64 are allowed."""

_Group = dict[str, tuple[Question, list[asyncio.Future[Reply]]]]
"""By name: a question, and who waits for its answer."""


@runtime_checkable
class BatchService(Protocol):
    """A client of a service that answers many questions at once, later."""

    @property
    def profile(self) -> ModelProfile: ...

    async def submit(self, questions: Mapping[str, Question]) -> str:
        """Send all in one batch; its id. Names have 1 to 64 letters, digits, `_` and `-`.

        Raises:
            ModelError: the batch was not taken.
        """
        ...

    async def collected(self, batch: str) -> dict[str, Reply | ModelError] | None:
        """What came of each question, by name; None while the batch is under way.

        Raises:
            ModelError: the service cannot be reached, or does not know the batch (any more).
        """
        ...


class Batches(Frozen):
    """Which batches were sent, so that after a crash they are waited for and not sent again."""

    of: dict[str, str] = Field(default_factory=dict[str, str])
    """By the name of a question: the id of the batch it was sent in."""


class Batched(Wrapper):
    """A `Model` whose conversations begin in batches; what follows is asked at once.

    Openings are many and wait for nobody; a reply to a report is waited for by its machine, and
    reads a prompt cache that would be cold by the time of the next batch. What cannot be had in a
    batch is asked at once, too: ModelUnavailable, or ModelRetired, as a gateway without batches
    does not know their address.
    """

    def __init__(self, model: Model, batching: Model) -> None:
        super().__init__(model)
        self._batching = batching

    async def answer(self, question: Question) -> Reply:
        if question.opening:
            try:
                return await question.put_to(self._batching)
            except (ModelUnavailable, ModelRetired):
                pass
        return await question.put_to(self.model)


class Batching(Answering):
    """A `Model` that sends in one batch what it is asked within a moment, and waits for it.

    The batch's id is kept in the store: a question that is asked again after a crash waits for the
    batch that it is in. Its answer is then counted again, though it is not paid twice. Close it
    with `aclose()`.
    """

    def __init__(
        self,
        service: BatchService,
        store: Store,
        *,
        linger: float = LINGER_SECONDS,
        poll: float = POLL_SECONDS,
        brief: Callable[[], AbstractContextManager[None]] = nullcontext,
    ) -> None:
        """Times in seconds; `brief` is entered around what should not be cut off."""
        self._service = service
        self._store = store
        self._linger = linger
        self._poll = poll
        self._brief = brief
        self._asked: _Group = {}
        self._jobs: set[asyncio.Task[None]] = set()
        self._sending = asyncio.Lock()

    @property
    def profile(self) -> ModelProfile:
        """The service's, at its price for batches."""
        profile = self._service.profile
        return profile.model_copy(update={"price": profile.price.batched})

    async def aclose(self) -> None:
        """Wait for no batch any longer; those that were sent are found again in the store."""
        for job in self._jobs:
            job.cancel()
        if self._jobs:
            await asyncio.wait(self._jobs)
        _fail(self._asked, None)  # a job that was cancelled before its first step did nothing

    async def answer(self, question: Question) -> Reply:
        """Raises ModelUnavailable also when the batch was cancelled or came to no end."""
        answer: asyncio.Future[Reply] = asyncio.get_running_loop().create_future()
        if not self._asked:
            job = asyncio.create_task(self._carry())
            self._jobs.add(job)
            job.add_done_callback(self._jobs.discard)
        self._asked.setdefault(name_of(question), (question, []))[1].append(answer)
        return await answer

    async def _carry(self) -> None:
        """Collect, send, wait, deliver; nobody who asked is left waiting, whatever happens."""
        group: _Group = {}
        try:
            await asyncio.sleep(self._linger)
            group, self._asked = self._asked, {}
            for batch, names in (await self._sent(group)).items():
                await self._deliver(group, names, await self._ended(batch))
        except asyncio.CancelledError:
            _fail(group or self._asked, None)
            raise
        except BaseException as error:  # noqa: BLE001 - told to those who asked
            _fail(group, error)

    async def _sent(self, group: _Group) -> dict[str, list[str]]:
        """The names of the group's questions by batch; those that are in none yet are sent."""
        async with self._sending:
            known = (await self._store.load(BATCHES_KEY, Batches) or Batches()).of
            new = [name for name in group if name not in known]
            for start in range(0, len(new), MOST):
                part = new[start : start + MOST]
                with self._brief():
                    batch = await self._service.submit({name: group[name][0] for name in part})
                    known = known | dict.fromkeys(part, batch)
                    await self._store.save(BATCHES_KEY, Batches(of=known))
        batches: dict[str, list[str]] = {}
        for name in group:
            batches.setdefault(known[name], []).append(name)
        return batches

    async def _ended(self, batch: str) -> dict[str, Reply | ModelError]:
        """Raises ModelUnavailable when the service was away for too long, or lost the batch."""
        failures, pause = 0, self._poll
        while True:
            try:
                answers = await self._service.collected(batch)
            except ModelRetired:
                return {}
            except ModelUnavailable:
                failures += 1
                if failures == PATIENCE:
                    raise
            else:
                failures = 0
                if answers is not None:
                    return answers
            await asyncio.sleep(pause)
            pause = min(2 * pause, LONGEST_POLL)

    async def _deliver(
        self, group: _Group, names: list[str], answers: dict[str, Reply | ModelError]
    ) -> None:
        lost = ModelUnavailable("A batch ended without this question.")
        failed = [name for name in names if not isinstance(answers.get(name), Reply)]
        if failed:  # asked again, they shall not meet the same failure
            async with self._sending:
                known = (await self._store.load(BATCHES_KEY, Batches) or Batches()).of
                kept = {name: batch for name, batch in known.items() if name not in failed}
                await self._store.save(BATCHES_KEY, Batches(of=kept))
        for name in names:
            answer = answers.get(name, lost)
            for waiting in group[name][1]:
                if waiting.done():
                    continue
                if isinstance(answer, Reply):
                    named = f"{answer.model} (batch)"
                    waiting.set_result(answer.model_copy(update={"model": named}))
                else:
                    waiting.set_exception(answer)


def name_of(question: Question) -> str:
    """The same for the same question, after a crash too; it begins with the call's name."""
    said = [question.system, *(f"{m.role}:{m.text}" for m in question.messages)]
    said += [question.call, str(question.max_tokens)]
    digests = b"".join(hashlib.sha256(t.encode("utf-8", "replace")).digest() for t in said)
    call = re.sub(r"[^A-Za-z0-9_]", "_", question.call.replace("/", "__"))
    return f"{call[:_CALL]}-{hashlib.sha256(digests).hexdigest()[:_DIGEST]}"


def call_of(name: str) -> str:
    """The call that a question's name begins with; of a very long one the beginning."""
    return name.rpartition("-")[0].replace("__", "/", 1)


def _fail(group: _Group, error: BaseException | None) -> None:
    """None: those who wait are cancelled."""
    for _, waiting in group.values():
        for answer in waiting:
            if not answer.done():
                answer.cancel() if error is None else answer.set_exception(error)
