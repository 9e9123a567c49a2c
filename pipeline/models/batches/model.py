"""Asks what opens a conversation in batches, where a provider has a lower price for them."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext

from pipeline.models.base import (
    Model,
    ModelError,
    ModelProfile,
    ModelRequest,
    ModelRetired,
    ModelUnavailable,
    Reply,
)
from pipeline.models.batches.queue import POLL_SECONDS, BatchQueue
from pipeline.models.batches.service import BatchService, remove_mark, request_name
from pipeline.models.wrappers.base import ModelWrapper
from pipeline.store import Store
from pipeline.types import replace

BATCH_SECONDS = 25 * 3600.0
"""The longest that a batch takes: Anthropic gives up after a day.

https://platform.claude.com/docs/en/build-with-claude/batch-processing
"""
LINGER_SECONDS = 2.0
"""How long questions are collected before they are sent together."""

_PendingRequests = dict[str, tuple[ModelRequest, list[asyncio.Future[Reply]]]]
"""By name: a question, and who waits for its answer."""


class BatchedOpenings(ModelWrapper):
    """A `Model` whose conversations begin in batches; what follows is asked at once.

    Openings are many and wait for nobody; a reply to a report is waited for by its machine, and
    reads a prompt cache that would be cold by the time of the next batch. What cannot be had in a
    batch is asked at once, too: ModelUnavailable, or ModelRetired, as a gateway without batches
    does not know their address.
    """

    def __init__(self, model: Model, batch_model: Model) -> None:
        super().__init__(model)
        self._batch_model = batch_model

    async def complete(self, request: ModelRequest) -> Reply:
        if request.is_opening:
            try:
                return await self._batch_model.complete(request)
            except (ModelUnavailable, ModelRetired):
                pass
        return await self.model.complete(request)


class BatchModel(Model):
    """A `Model` that sends in one batch what it is asked within a moment, and waits for it.

    What is sent is kept in the store, before and after: a question that is asked again after a
    crash waits for the batch that it is in. Its answer is then counted again, though it is not paid
    twice. Close it with `aclose()`.
    """

    def __init__(
        self,
        service: BatchService,
        store: Store,
        *,
        linger: float = LINGER_SECONDS,
        poll: float = POLL_SECONDS,
        uncancellable: Callable[[], AbstractContextManager[None]] = nullcontext,
    ) -> None:
        """Times in seconds; `uncancellable` is entered around what should not be cut off."""
        self._service = service
        self._queue = BatchQueue(service, store, poll, uncancellable)
        self._linger = linger
        self._pending: _PendingRequests = {}
        self._tasks: set[asyncio.Task[None]] = set()

    @property
    def profile(self) -> ModelProfile:
        """The service's, at its price for batches."""
        profile = self._service.profile
        return replace(profile, price=profile.price.batched)

    async def aclose(self) -> None:
        """Wait for no batch any longer; those that were sent are found again in the store."""
        for job in self._tasks:
            job.cancel()
        if self._tasks:
            await asyncio.wait(self._tasks)
        _fail_pending(
            self._pending, None
        )  # a job that was cancelled before its first step did nothing

    async def complete(self, request: ModelRequest) -> Reply:
        """Raises ModelUnavailable also when the batch was cancelled or came to no end."""
        answer: asyncio.Future[Reply] = asyncio.get_running_loop().create_future()
        if not self._pending:
            job = asyncio.create_task(self._run_batch())
            self._tasks.add(job)
            job.add_done_callback(self._tasks.discard)
        self._pending.setdefault(request_name(request), (request, []))[1].append(answer)
        return await answer

    async def _run_batch(self) -> None:
        """Collect, send, wait, deliver; nobody who asked is left waiting, whatever happens."""
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
        except BaseException as error:  # noqa: BLE001 - told to those who asked
            _fail_pending(group, error)

    async def _deliver(
        self, group: _PendingRequests, names: list[str], answers: dict[str, Reply | ModelError]
    ) -> None:
        lost = ModelUnavailable("A batch ended without this question.")
        failed = [name for name in names if not isinstance(answers.get(name), Reply)]
        if failed:  # asked again, they shall not meet the same failure
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
    """None: those who wait are cancelled."""
    for _, waiting in group.values():
        for answer in waiting:
            if not answer.done():
                answer.cancel() if error is None else answer.set_exception(error)
