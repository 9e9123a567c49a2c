"""Takes commands out of the inbox and has them carried out: beside the runs, never behind them."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from datetime import timedelta
from typing import Final, NamedTuple

from bot.errors import TryLater
from bot.queue.inbox import Inbox, Item
from bot.queue.nudges import Nudges
from bot.settings import Settings
from bot.storage.client import UNREACHABLE, Outage
from bot.storage.runs import Runs
from bot.types import now

AT_ONCE: Final = 4
"""Commands of one worker that are carried out side by side."""
POLL_SECONDS: Final = 0.1
MOST_TRIES: Final = 3
"""How often a command is tried that fails through a bug of ours."""
BUG_SECONDS: Final = 5.0

logger = logging.getLogger(__name__)


class Office(NamedTuple):
    """What carrying out a command may act on."""

    runs: Runs
    nudges: Nudges


class Later(NamedTuple):
    """A command that is to come up again, as `item`."""

    item: Item
    seconds: float


CarryOut = Callable[[Item, Office], Awaitable[Later | None]]
"""Does what a command says, find-or-create: it may have been done before.

Raises:
    TryLater: GitHub does not answer; it will be called again.
"""


class Clerk:
    """One for each worker."""

    def __init__(
        self, inbox: Inbox, office: Office, carry_out: CarryOut, settings: Settings, outage: Outage
    ) -> None:
        self._inbox = inbox
        self._office = office
        self._carry_out = carry_out
        self._patience = timedelta(seconds=settings.patience_seconds)
        self._outage = outage
        self._under_way: set[asyncio.Task[None]] = set()

    async def run(self) -> None:
        """Work until cancelled; what is under way is cancelled too, and comes up again."""
        try:
            while True:
                try:
                    item = await self._inbox.take()
                except UNREACHABLE as error:
                    await self._outage.wait(error)
                    continue
                if item is None:
                    await asyncio.sleep(POLL_SECONDS)
                    continue
                await self._begin(item)
        finally:
            for task in self._under_way:
                task.cancel()
            if self._under_way:
                await asyncio.wait(self._under_way)

    async def _begin(self, item: Item) -> None:
        task = asyncio.create_task(self.do(item))
        self._under_way.add(task)
        task.add_done_callback(self._under_way.discard)
        while len(self._under_way) >= AT_ONCE:
            await asyncio.wait(self._under_way, return_when=asyncio.FIRST_COMPLETED)

    async def do(self, item: Item) -> None:
        """Carry out one command that was taken. Raises nothing but bugs in what it is made of."""
        try:
            await self._settle(item, await self._outcome(item))
        except UNREACHABLE as error:  # it comes up again by itself
            logger.warning("Command %s: Redis: %s", item.order.id, error)

    async def _settle(self, item: Item, later: Later | None) -> None:
        if later is None:
            await self._inbox.done(item)
        elif now() - item.at >= self._patience:
            logger.error("Command %s: given up after a long time", item.order.id)
            await self._inbox.done(item)
        else:
            await self._inbox.later(later.item, later.seconds)

    async def _outcome(self, item: Item) -> Later | None:
        try:
            return await self._carry_out(item, self._office)
        except TryLater as error:
            logger.warning("Command %s: %s: %s", item.order.id, error, error.__cause__)
            return Later(item, error.after)
        except UNREACHABLE:
            raise
        except Exception:  # the outermost edge of a command
            logger.exception("Command %s: a bug", item.order.id)
            tried = item.model_copy(update={"tries": item.tries + 1})
            return None if tried.tries >= MOST_TRIES else Later(tried, BUG_SECONDS)
