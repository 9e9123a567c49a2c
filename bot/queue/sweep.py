"""What brings back every run that a nudge, a worker or a webhook was lost for."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import NamedTuple
from uuid import uuid4

from bot.errors import TryLater
from bot.queue.nudges import Nudges
from bot.queue.position import Announce, QueueAnnouncer
from bot.queue.start import request_run
from bot.settings import Settings
from bot.storage.client import UNREACHABLE, Outage
from bot.storage.cursors import Cursors
from bot.storage.runs import StartOutcome
from bot.storage.storage import Storage
from bot.triggers.label_events import SWEEP_PREFIX
from bot.triggers.labels import LabelSet, has_label
from bot.triggers.requests import CommandRequest, ConfigCheckRequest, PullUpdate, RunRequest
from bot.types import IssueSnapshot, LabeledIssue, Mode, RepoRef, Stop, StopReason

FindMissedEvents = Callable[
    [Cursors],
    AsyncIterator[LabeledIssue | IssueSnapshot | CommandRequest | ConfigCheckRequest | PullUpdate],
]
"""Finds what people have asked for, or withdrawn, since the cursors.

Raises:
    TryLater: GitHub does not answer.
"""

CleanUp = Callable[[list[str]], Awaitable[int]]
"""Removes what runs that are not in the list have left behind; returns how much it removed.

Raises:
    TryLater: the sandbox's engine does not answer.
"""


class SweepActions(NamedTuple):
    """What a sweep does outside Redis; None where it does nothing."""

    find_missed: FindMissedEvents | None = None
    clean_up: CleanUp | None = None
    announce: Announce | None = None


logger = logging.getLogger(__name__)


class Sweep:
    """The loops run in every worker, until cancelled."""

    def __init__(
        self,
        storage: Storage,
        nudges: Nudges,
        settings: Settings,
        actions: SweepActions,
        outage: Outage,
    ) -> None:
        self._storage = storage
        self._runs = storage.runs
        self._requests = storage.requests
        self._nudges = nudges
        self._settings = settings
        self._find_missed = actions.find_missed
        self._clean_up = actions.clean_up
        self._announcer = actions.announce and QueueAnnouncer(storage, nudges, actions.announce)
        self._outage = outage

    async def nudge_idle_runs(self) -> None:
        """Nudge for each active run without a lease: its worker died, or its nudge was lost."""
        while True:
            try:
                async for run in self._runs.list_idle():
                    await self._nudges.send_for(run)
                self._outage.end()
            except UNREACHABLE as error:
                await self._outage.wait(error)
            await asyncio.sleep(self._settings.timings.sweep_seconds)

    async def announce_positions(self) -> None:
        """Announce positions in the queue; one worker at a time."""
        seconds = self._settings.timings.queue_seconds
        while self._announcer is not None:
            try:
                if await self._storage.turns.take_queue_turn(seconds):
                    await self._announcer.announce()
            except UNREACHABLE as error:
                await self._outage.wait(error)
            await asyncio.sleep(seconds / 2)
        await asyncio.Event().wait()

    async def recover_missed(self) -> None:
        """Create the runs of labelled issues that no webhook reported; one worker at a time."""
        if self._find_missed is None:
            await asyncio.Event().wait()
            return
        while True:
            try:
                if await self._storage.turns.take_missed_webhooks_turn(
                    self._settings.timings.missed_seconds
                ):
                    await self._recover_once(self._find_missed)
            except UNREACHABLE as error:
                await self._outage.wait(error)
            await asyncio.sleep(self._settings.timings.missed_seconds / 2)

    async def follow_up_pulls(self) -> None:
        """Look after our open pull requests at intervals, also without a webhook."""
        while True:
            try:
                await self.start_follow_ups()
            except UNREACHABLE as error:
                await self._outage.wait(error)
            await asyncio.sleep(self._settings.timings.sweep_seconds)

    async def start_follow_ups(self) -> None:
        """Begin a run on each pull request whose time has come. Raises what Redis raises."""
        due = await self._storage.pulls.take_due(again_in=self._settings.timings.follow_up_seconds)
        for repo, pull in due:
            await self._start_follow_up(repo, pull)

    async def _start_follow_up(self, repo: RepoRef, pull: int) -> None:
        record = await self._storage.pulls.get(repo, pull)
        if record is None or await self._runs.get_current(repo, pull) is not None:
            return
        asked = await self._runs.create(
            repo,
            pull,
            asked_by=record.asked_by,
            delivery=f"{SWEEP_PREFIX}{uuid4().hex}",
            join=False,
            mode=Mode.FOLLOW_UP,
        )
        await self._nudges.send(asked.run_id, 0)

    async def remove_leftovers(self) -> None:
        """Remove what workers that died on this machine have left behind."""
        while self._clean_up is not None:
            try:
                if removed := await self._clean_up(await self._runs.list_active()):
                    logger.warning("Removed %d leftovers of runs that ended", removed)
            except UNREACHABLE as error:
                await self._outage.wait(error)
            except TryLater as error:
                logger.warning("Could not look for leftovers: %s", error)
            await asyncio.sleep(self._settings.timings.missed_seconds)
        await asyncio.Event().wait()

    async def _recover_once(self, find_missed: FindMissedEvents) -> None:
        """Look; a failure is logged and costs this turn, never the worker."""
        look = asyncio.create_task(self.recover(find_missed))
        try:
            await asyncio.wait([look])
        finally:
            look.cancel()
        error = look.exception()
        if isinstance(error, TryLater):
            logger.warning("Could not look for missed webhooks: %s", error)
        elif error:
            logger.error("Could not look for missed webhooks", exc_info=error)

    async def recover(self, find_missed: FindMissedEvents) -> None:
        """Handle events whose webhook never came. Raises TryLater and redis-py's errors."""
        async for found in find_missed(self._storage.cursors):
            match found:
                case LabeledIssue():
                    await self._start_run(found)
                case IssueSnapshot():
                    await self._stop_run(found)
                case PullUpdate():
                    if await self._storage.pulls.find_concerned(found):
                        await self._requests.put(found)
                case CommandRequest() | ConfigCheckRequest():
                    if await self._requests.put(found):
                        logger.warning("Command %s: its webhook never came", found.id)

    async def _start_run(self, found: LabeledIssue) -> None:
        """Have the run that the label asks for, unless it was answered."""
        delivery = f"{SWEEP_PREFIX}{found.repo.full_name}-{found.issue}-{found.at.timestamp():.0f}"
        request = RunRequest(
            repo=found.repo,
            issue=found.issue,
            asked_by=found.actor,
            delivery=delivery,
            mode=found.mode,
            label=found.label,
            found_at=found.at,
        )
        asked = await request_run(request, self._storage)
        if asked.outcome is StartOutcome.CREATED:
            logger.warning("Run %s: its webhook never came", asked.run_id)
            await self._nudges.send(asked.run_id, 0)

    async def _stop_run(self, found: IssueSnapshot) -> None:
        """Have a run stopped whose label is off, whose issue is closed, or that is unwanted."""
        run = await self._runs.get_current(found.repo, found.issue)
        if run is None:
            return
        off = run.label and not has_label(found.labels, run.label)
        worn = LabelSet(self._settings.label).find_opt_out(found.labels)
        if worn is not None and not found.closed:
            stop = Stop(by="", why=StopReason.DISABLED, label=worn)
            await self._runs.request_stop(found.repo, found.issue, stop)
        elif found.closed or off:
            why = StopReason.CLOSED if found.closed else StopReason.UNLABELED
            await self._runs.request_stop(found.repo, found.issue, Stop(by="", why=why))
