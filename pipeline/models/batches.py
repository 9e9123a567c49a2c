"""Sends requests to a provider's batch API; a crash sends none twice."""

from __future__ import annotations

import asyncio
import hashlib
import re
import secrets
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from datetime import UTC, datetime, timedelta
from typing import NamedTuple, Protocol, TypeVar, runtime_checkable

from pydantic import Field

from pipeline.models.base import (
    Model,
    ModelError,
    ModelMisconfigured,
    ModelProfile,
    ModelRequest,
    ModelRetired,
    ModelUnavailable,
    Reply,
)
from pipeline.store import Store
from sandbox.frozen import Frozen, replace

_CALL_LENGTH, _DIGEST_LENGTH = 30, 24
"""Characters of a request's name; services allow 64, including the batch's mark."""


class SubmittedBatch(NamedTuple):
    id: str
    at: datetime
    """When the service accepted it, by the service's clock."""
    requests: int


@runtime_checkable
class BatchService(Protocol):
    """A client of a provider's batch API."""

    @property
    def profile(self) -> ModelProfile: ...

    async def submit(self, requests: Mapping[str, ModelRequest]) -> str:
        """Send all requests in one batch, once, and return its id.

        Names have 1 to 64 letters, digits, `_` and `-`.

        Raises:
            ModelUnavailable: the batch was rejected, or we cannot know.
            ModelError: the batch was rejected.
        """
        ...

    async def list_batches(self, since: datetime, until: datetime) -> Sequence[SubmittedBatch]:
        """The batches accepted between these times, newest first, of all users of the same key.

        Raises:
            ModelError: the service cannot be reached.
        """
        ...

    async def fetch_results(self, batch: str) -> dict[str, Reply | ModelError] | None:
        """The outcome of each request, by name; None while the batch is under way.

        Raises:
            ModelError: the service cannot be reached, or does not know the batch (any more).
        """
        ...


def request_name(request: ModelRequest) -> str:
    """A name that is the same for equal requests, also after a crash; begins with the call's."""
    parts = [request.system, *(f"{m.role}:{m.text}" for m in request.messages)]
    parts += [picture.base64 for m in request.messages for picture in m.pictures]
    parts += [request.call, str(request.max_tokens)]
    digests = b"".join(hashlib.sha256(t.encode("utf-8", "replace")).digest() for t in parts)
    call = re.sub(r"[^A-Za-z0-9_]", "_", request.call.replace("/", "__"))
    return f"{call[:_CALL_LENGTH]}-{hashlib.sha256(digests).hexdigest()[:_DIGEST_LENGTH]}"


def add_mark(name: str, mark: str) -> str:
    """The name of a request in the batch with this mark."""
    return f"{name}-{mark}"


def remove_mark(sent: str) -> str:
    """The inverse of `add_mark`: the name without the mark."""
    return "-".join(sent.split("-")[:2])


def call_of(sent: str) -> str:
    """The call that a request's name begins with, marked or not; cut if the call is long."""
    return sent.partition("-")[0].replace("__", "/", 1)


BATCHES_KEY = "batches"
POLL_SECONDS = 1.0
"""The first wait between polls; each further wait doubles, up to `MAX_POLL_SECONDS`."""
MAX_POLL_SECONDS = 60.0
MAX_BATCH_SIZE = 1000
"""Requests in one batch, far below the provider's size limits."""
MAX_FAILED_POLLS = 10
"""Polls in a row that may fail before we give up."""
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
        # How often we send a batch that the service rejects.
        for pause in (*(self._poll * 2**tried for tried in range(3)), None):
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
            mark=secrets.token_hex(4),
            at=datetime.now(UTC),
            names=(*part,),
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
        # Before: how far the service's clock may be from ours. After: longer than sending takes.
        since, until = intent.at - timedelta(minutes=10), intent.at + timedelta(hours=1)
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


_PendingRequests = dict[str, tuple[ModelRequest, list[asyncio.Future[Reply]]]]
"""By name: a request, and the futures that wait for its reply."""


class BatchModel(Model):
    """A `Model` that collects requests for a moment, sends them as one batch and waits for it.

    The store records each batch before and after it is sent, so a request that is repeated after a
    crash waits for the batch it is already in. Its reply is then counted again, although the
    provider bills it once. Close it with `aclose()`.
    """

    def __init__(
        self,
        service: BatchService,
        store: Store,
        *,
        # How long requests are collected before they are sent as one batch.
        linger: float = 2.0,
        poll: float = POLL_SECONDS,
        uncancellable: Callable[[], AbstractContextManager[None]] = nullcontext,
    ) -> None:
        """Times in seconds; `uncancellable` guards the steps that must not be cancelled halfway."""
        self._service = service
        self._queue = BatchQueue(service, store, poll, uncancellable)
        self._linger = linger
        self._pending: _PendingRequests = {}
        self._tasks: set[asyncio.Task[None]] = set()

    @property
    def profile(self) -> ModelProfile:
        """The service's profile, at its price for batches."""
        profile = self._service.profile
        return replace(profile, price=profile.price.batched)

    async def aclose(self) -> None:
        """Stop waiting for batches; the store remembers those that were sent."""
        for job in self._tasks:
            job.cancel()
        if self._tasks:
            await asyncio.wait(self._tasks)
        _fail_pending(
            self._pending, None
        )  # a job that was cancelled before its first step did nothing

    async def complete(self, request: ModelRequest) -> Reply:
        """Raises ModelUnavailable also when the batch was cancelled or never ended."""
        answer: asyncio.Future[Reply] = asyncio.get_running_loop().create_future()
        if not self._pending:
            job = asyncio.create_task(self._run_batch())
            self._tasks.add(job)
            job.add_done_callback(self._tasks.discard)
        self._pending.setdefault(request_name(request), (request, []))[1].append(answer)
        return await answer

    async def _run_batch(self) -> None:
        """Collect, send, wait, deliver. Every caller gets a reply or an error, whatever happens."""
        group: _PendingRequests = {}
        try:
            await asyncio.sleep(self._linger)
            group, self._pending = self._pending, {}
            requests = {name: request for name, (request, _) in group.items()}
            for batch, names in (await self._queue.submit_new(requests)).items():
                answers = await self._queue.wait_for_results(batch)
                await self._deliver(group, names, {remove_mark(n): a for n, a in answers.items()})
        except asyncio.CancelledError:
            _fail_pending(group or self._pending, None)
            raise
        except BaseException as error:  # noqa: BLE001 - every waiting caller receives it
            _fail_pending(group, error)

    async def _deliver(
        self, group: _PendingRequests, names: list[str], answers: dict[str, Reply | ModelError]
    ) -> None:
        lost = ModelUnavailable("A batch ended without this question.")
        failed = [name for name in names if not isinstance(answers.get(name), Reply)]
        if failed:  # so that a repeated request goes into a new batch
            await self._queue.forget(failed)
        for name in names:
            answer = answers.get(name, lost)
            for waiting in group[name][1]:
                if waiting.done():
                    continue
                if isinstance(answer, Reply):
                    named = f"{answer.model} (batch)"
                    waiting.set_result(replace(answer, model=named))
                else:
                    waiting.set_exception(answer)


def _fail_pending(group: _PendingRequests, error: BaseException | None) -> None:
    """Fail every waiting caller with `error`; None cancels them."""
    for _, waiting in group.values():
        for answer in waiting:
            if not answer.done():
                answer.cancel() if error is None else answer.set_exception(error)
