"""Sends the first request of each conversation in a batch, which providers sell at a discount."""

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
"""The longest a batch can take: Anthropic gives up after a day.

https://platform.claude.com/docs/en/build-with-claude/batch-processing
"""
LINGER_SECONDS = 2.0
"""How long requests are collected before they are sent as one batch."""

_PendingRequests = dict[str, tuple[ModelRequest, list[asyncio.Future[Reply]]]]
"""By name: a request, and the futures that wait for its reply."""


class BatchedOpenings(ModelWrapper):
    """A `Model` that sends openings in batches and every later request directly.

    Openings are many, and nothing waits for any one of them. A later request holds up its machine,
    and it reads a prompt cache that would be cold by the next batch. When the batch API fails with
    ModelUnavailable, or with ModelRetired (a gateway without batches does not know the address),
    the opening is sent directly as well.
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
        linger: float = LINGER_SECONDS,
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
