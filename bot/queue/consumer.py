"""Takes commands from the inbox and executes them alongside the runs, never after them."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from datetime import timedelta
from typing import Final, NamedTuple

from structlog.contextvars import bound_contextvars

from bot.data.request import RunRequest
from bot.data.run import now
from bot.errors import TryLater
from bot.queue.nudges import Nudges
from bot.storage.client import UNREACHABLE, Outage
from bot.storage.requests import QueuedRequest
from bot.storage.runs import Runs
from bot.storage.storage import Storage
from pipeline.run_errors import UnreadableRecord
from sandbox.frozen import replace

MAX_CONCURRENT: Final = 4
"""Commands that one worker executes at a time."""
POLL_SECONDS: Final = 0.1
MAX_TRIES: Final = 3

logger = logging.getLogger(__name__)


class RunQueue(NamedTuple):
    """What carrying out a command may act on."""

    storage: Storage
    nudges: Nudges

    @property
    def runs(self) -> Runs:
        return self.storage.runs


class RetryLater(NamedTuple):
    """A command that is to come up again, as `item`."""

    item: QueuedRequest
    seconds: float


ExecuteRequest = Callable[[QueuedRequest, RunQueue], Awaitable[RetryLater | None]]
"""Does what a command says, find-or-create: it may have been done before.

Raises:
    TryLater: GitHub does not answer; it will be called again.
"""


class RequestConsumer:
    """One for each worker."""

    def __init__(
        self,
        run_queue: RunQueue,
        execute: ExecuteRequest,
        patience_seconds: float,
        outage: Outage,
    ) -> None:
        self._requests = run_queue.storage.requests
        self._run_queue = run_queue
        self._execute = execute
        self._patience = timedelta(seconds=patience_seconds)
        self._outage = outage
        self._under_way: set[asyncio.Task[None]] = set()

    async def run(self) -> None:
        """Work until cancelled; what is under way is cancelled too, and comes up again."""
        try:
            while True:
                try:
                    item = await self._requests.take()
                except UNREACHABLE as error:
                    await self._outage.wait(error)
                    continue
                if item is None:
                    await asyncio.sleep(POLL_SECONDS)
                    continue
                await self._start(item)
        finally:
            for task in self._under_way:
                task.cancel()
            if self._under_way:
                await asyncio.wait(self._under_way)

    async def _start(self, item: QueuedRequest) -> None:
        request = item.request
        by = request.asked_by if isinstance(request, RunRequest) else getattr(request, "by", "")
        with bound_contextvars(delivery=request.delivery, repository=request.repo.full_name, by=by):
            task = asyncio.create_task(self.handle(item))
        self._under_way.add(task)
        task.add_done_callback(self._under_way.discard)
        while len(self._under_way) >= MAX_CONCURRENT:
            await asyncio.wait(self._under_way, return_when=asyncio.FIRST_COMPLETED)

    async def handle(self, item: QueuedRequest) -> None:
        """Carry out one command that was taken. Raises nothing but bugs in what it is made of."""
        try:
            await self._settle(item, await self._try_execute(item))
        except UNREACHABLE as error:  # it comes up again by itself
            logger.warning("Command %s: Redis: %s", item.request.id, error)

    async def _settle(self, item: QueuedRequest, later: RetryLater | None) -> None:
        if later is None:
            await self._requests.complete(item)
        elif now() - item.at >= self._patience:
            logger.error("Command %s: gave up after a long time", item.request.id)
            await self._requests.complete(item)
        else:
            await self._requests.postpone(later.item, later.seconds)

    async def _try_execute(self, item: QueuedRequest) -> RetryLater | None:
        try:
            return await self._execute(item, self._run_queue)
        except TryLater as error:
            logger.warning("Command %s: %s: %s", item.request.id, error, error.__cause__)
            return RetryLater(item, error.after)
        except UNREACHABLE:
            raise
        except UnreadableRecord as error:
            logger.error("Command %s: %s", item.request.id, error)  # noqa: TRY400 - the sentence says all
            return None
        except Exception:  # the outermost edge of a command
            logger.exception("Command %s: a bug", item.request.id)
            tried = replace(item, tries=item.tries + 1)
            return None if tried.tries >= MAX_TRIES else RetryLater(tried, 5)
