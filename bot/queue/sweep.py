"""What brings back every run that a nudge, a worker or a webhook was lost for."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Awaitable, Callable
from uuid import uuid4

from bot.errors import TryLater
from bot.queue.inbox import Inbox
from bot.queue.nudges import Nudges
from bot.queue.position import Announce, Waiting
from bot.queue.start import ask
from bot.settings import Settings
from bot.storage.client import UNREACHABLE, Outage
from bot.storage.cursors import Cursors
from bot.storage.label_events import SWEEP
from bot.storage.pulls import Records
from bot.storage.runs import Outcome, Runs
from bot.triggers.labels import OPT_OUT
from bot.triggers.requests import Inspect, Order, Start, Tend
from bot.types import Labelled, Mode, RepoRef, Stop, StopReason, Unwanted

FindLabelled = Callable[[Cursors], AsyncIterator[Labelled | Unwanted | Order | Inspect | Tend]]
"""What was asked for, or no longer is, as far as anything changed. May raise TryLater."""

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
        announce: Announce | None,
        outage: Outage,
    ) -> None:
        self._runs = runs
        self._nudges = nudges
        self._settings = settings
        self._find_labelled = find_labelled
        self._clean_up = clean_up
        self._waiting = None if announce is None else Waiting(runs, nudges, announce)
        self._outage = outage
        self._inbox = Inbox(runs.redis, runs.keys)

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

    async def queue(self) -> None:
        """Tell those who wait their place in the queue; one worker at a time."""
        seconds = self._settings.queue_seconds
        while self._waiting is not None:
            try:
                if await self._runs.my_turn(seconds, self._runs.keys.queue_turn):
                    await self._waiting.tell()
            except UNREACHABLE as error:
                await self._outage.wait(error)
            await asyncio.sleep(seconds / 2)
        await asyncio.Event().wait()

    async def missed_webhooks(self) -> None:
        """Create the runs of labelled issues that no webhook told us of; one worker at a time."""
        if self._find_labelled is None:
            await asyncio.Event().wait()
            return
        while True:
            try:
                if await self._runs.my_turn(
                    self._settings.missed_seconds, self._runs.keys.labelled_turn
                ):
                    await self._look_once(self._find_labelled)
            except UNREACHABLE as error:
                await self._outage.wait(error)
            await asyncio.sleep(self._settings.missed_seconds / 2)

    async def pulls(self) -> None:
        """Look after our open pull requests now and then, whatever was heard of them."""
        while True:
            try:
                await self.look_after()
            except UNREACHABLE as error:
                await self._outage.wait(error)
            await asyncio.sleep(self._settings.sweep_seconds)

    async def look_after(self) -> None:
        """Begin a run on each pull request whose time has come. Raises what Redis raises."""
        records = Records(self._runs.redis, self._runs.keys)
        for repo, pull in await records.due(again_in=self._settings.tend_seconds):
            await self._tend(records, repo, pull)

    async def _tend(self, records: Records, repo: RepoRef, pull: int) -> None:
        record = await records.get(repo, pull)
        if record is None or await self._runs.current(repo, pull) is not None:
            return
        asked = await self._runs.create(
            repo,
            pull,
            asked_by=record.asked_by,
            delivery=f"{SWEEP}{uuid4().hex}",
            join=False,
            mode=Mode.TEND,
        )
        await self._nudges.send(asked.run_id, 0)

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
        look = asyncio.create_task(self.look(find_labelled))
        try:
            await asyncio.wait([look])
        finally:
            look.cancel()
        error = look.exception()
        if isinstance(error, TryLater):
            logger.warning("Could not look for missed webhooks: %s", error)
        elif error:
            logger.error("Could not look for missed webhooks", exc_info=error)

    async def look(self, find_labelled: FindLabelled) -> None:
        """Deal with what no webhook told us of. Raises TryLater, and what Redis raises."""
        cursors = Cursors(self._runs.redis, self._runs.keys)
        async for found in find_labelled(cursors):
            match found:
                case Labelled():
                    await self._start(found)
                case Unwanted():
                    await self._stop(found)
                case Tend():
                    if await Records(self._runs.redis, self._runs.keys).meant(found):
                        await self._inbox.put(found)
                case Order() | Inspect():
                    if await self._inbox.put(found):
                        logger.warning("Command %s: its webhook never came", found.id)

    async def _start(self, found: Labelled) -> None:
        """Have the run that the label asks for, unless it was answered."""
        delivery = f"{SWEEP}{found.repo.full_name}-{found.issue}-{found.at.timestamp():.0f}"
        wish = Start(
            repo=found.repo,
            issue=found.issue,
            asked_by=found.actor,
            delivery=delivery,
            mode=found.mode,
            label=found.label,
            found_at=found.at,
        )
        asked = await ask(wish, self._runs, self._inbox)
        if asked.outcome is Outcome.CREATED:
            logger.warning("Run %s: its webhook never came", asked.run_id)
            await self._nudges.send(asked.run_id, 0)

    async def _stop(self, found: Unwanted) -> None:
        """Have a run stopped whose label is off, whose issue is closed, or that is unwanted."""
        run = await self._runs.current(found.repo, found.issue)
        if run is None:
            return
        off = run.label and run.label.casefold() not in {label.casefold() for label in found.labels}
        kept_away = (self._settings.label + OPT_OUT).casefold()
        worn = next((label for label in found.labels if label.casefold() == kept_away), "")
        if worn and not found.closed:
            stop = Stop(by="", why=StopReason.DISABLED, label=worn)
            await self._runs.ask_stop(found.repo, found.issue, stop)
        elif found.closed or off:
            why = StopReason.CLOSED if found.closed else StopReason.UNLABELED
            await self._runs.ask_stop(found.repo, found.issue, Stop(by="", why=why))
