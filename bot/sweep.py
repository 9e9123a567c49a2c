"""What brings back every run that a nudge, a worker or a webhook was lost for."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Awaitable, Callable

from bot.errors import TryLater
from bot.queue import Nudges
from bot.redis_client import UNREACHABLE, Outage
from bot.runs import Outcome, Runs
from bot.settings import Settings
from bot.types import Labelled

FindLabelled = Callable[[], AsyncIterator[Labelled]]
"""All open issues with the label, in all repositories of the App. May raise TryLater."""

CleanUp = Callable[[list[str]], Awaitable[int]]
"""Removes what is left of runs that are not in the list; how much there was. May raise TryLater."""

logger = logging.getLogger(__name__)


class Sweep:
    """The loops run in every worker, until cancelled."""

    def __init__(
        self,
        runs: Runs,
        nudges: Nudges,
        settings: Settings,
        find_labelled: FindLabelled | None,
        clean_up: CleanUp | None,
        outage: Outage,
    ) -> None:
        self._runs = runs
        self._nudges = nudges
        self._settings = settings
        self._find_labelled = find_labelled
        self._clean_up = clean_up
        self._outage = outage

    async def idle_runs(self) -> None:
        """Nudge for each active run without a lease: its worker died, or its nudge was lost."""
        while True:
            try:
                async for run in self._runs.idle():
                    await self._nudges.send_for(run)
                self._outage.over()
            except UNREACHABLE as error:
                await self._outage.wait(error)
            await asyncio.sleep(self._settings.sweep_seconds)

    async def missed_webhooks(self) -> None:
        """Create the runs of labelled issues that no webhook told us of; one worker at a time."""
        if self._find_labelled is None:
            await asyncio.Event().wait()
            return
        while True:
            try:
                if await self._runs.my_turn(self._settings.missed_seconds):
                    await self._look_once(self._find_labelled)
            except UNREACHABLE as error:
                await self._outage.wait(error)
            await asyncio.sleep(self._settings.missed_seconds / 2)

    async def leftovers(self) -> None:
        """Remove what workers that died on this machine have left behind."""
        while self._clean_up is not None:
            try:
                if removed := await self._clean_up(await self._runs.active()):
                    logger.warning("Removed %d leftovers of runs that ended", removed)
            except UNREACHABLE as error:
                await self._outage.wait(error)
            except TryLater as error:
                logger.warning("Could not look for leftovers: %s", error)
            await asyncio.sleep(self._settings.missed_seconds)
        await asyncio.Event().wait()

    async def _look_once(self, find_labelled: FindLabelled) -> None:
        """Look; a failure is logged and costs this turn, never the worker."""
        look = asyncio.create_task(self._look(find_labelled))
        try:
            await asyncio.wait([look])
        finally:
            look.cancel()
        error = look.exception()
        if isinstance(error, TryLater):
            logger.warning("Could not look for missed webhooks: %s", error)
        elif error:
            logger.error("Could not look for missed webhooks", exc_info=error)

    async def _look(self, find_labelled: FindLabelled) -> None:
        async for found in find_labelled():
            before = await self._runs.last(found.repo, found.issue)
            if before is not None and before.created_at >= found.at:
                continue  # that label was answered; it stayed on because the run went wrong
            delivery = f"sweep-{found.repo.full_name}-{found.issue}-{found.at.timestamp():.0f}"
            asked = await self._runs.create(
                found.repo, found.issue, asked_by=found.actor, delivery=delivery
            )
            if asked.outcome is Outcome.CREATED:
                logger.warning("Run %s: its webhook never came", asked.run_id)
                await self._nudges.send(asked.run_id, 0)
