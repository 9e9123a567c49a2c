"""Brings back every run that a nudge, a worker or a webhook was lost of; ends stopped ones."""

from __future__ import annotations

import asyncio
import logging
import socket
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Coroutine, Sequence
from typing import Any, Final, NamedTuple
from uuid import uuid4

from bot.data.request import (
    SWEEP_PREFIX,
    CommandRequest,
    ConfigCheckRequest,
    PullUpdate,
    StartOutcome,
)
from bot.data.run import IssueSnapshot, LabeledIssue, Login, Mode, RepoRef, RunId, Stop, StopReason
from bot.errors import BotError, TryLater
from bot.queue.nudges import Nudges, request_labeled_run
from bot.queue.position import Announce, QueueAnnouncer
from bot.settings import Settings
from bot.storage.client import UNREACHABLE, Outage
from bot.storage.runs import Runs
from bot.storage.storage import Storage
from bot.storage.workers import Cursors, Housekeeping
from bot.webhooks.labels import LabelSet, has_label

POLL_SECONDS: Final = 1.0
MAX_CONCURRENT: Final = 8
"""Stops that one worker reports side by side."""
RETRY_SECONDS: Final = 30.0
"""After which a stop that could not be reported is tried again; GitHub may not answer."""

StopIdleRun = Callable[[RunId], Awaitable[bool]]
"""Ends the run if it is still to stop; False: somebody works on it. Raises redis-py's errors."""


class IdleStops:
    """One for each worker."""

    def __init__(self, runs: Runs, stop: StopIdleRun, outage: Outage) -> None:
        self._runs = runs
        self._stop = stop
        self._outage = outage
        self._not_before: dict[RunId, float] = {}

    async def run(self) -> None:
        """Look every second, until cancelled."""
        while True:
            try:
                await self.stop_all()
            except UNREACHABLE as error:
                await self._outage.wait(error)
            await asyncio.sleep(POLL_SECONDS)

    async def stop_all(self) -> None:
        """Try each run that is to stop, one time. Raises redis-py's errors."""
        stopping = await self._runs.list_stopping()
        clock = time.monotonic()
        due = [run_id for run_id in stopping if self._not_before.get(run_id, 0) <= clock]
        self._not_before = {
            run_id: at for run_id, at in self._not_before.items() if run_id in stopping
        }
        slots = asyncio.Semaphore(MAX_CONCURRENT)

        async def stop(run_id: RunId) -> None:
            async with slots:
                if await self._stop(run_id):
                    self._not_before[run_id] = clock + RETRY_SECONDS

        tasks = [asyncio.create_task(stop(run_id)) for run_id in due]
        try:
            for task in tasks:
                await task
        finally:
            for task in tasks:
                task.cancel()
            if tasks:
                await asyncio.wait(tasks)


FindMissedEvents = Callable[
    [Cursors],
    AsyncIterator[LabeledIssue | IssueSnapshot | CommandRequest | ConfigCheckRequest | PullUpdate],
]
"""Finds what people have asked for, or withdrawn, since the cursors.

Raises:
    TryLater: GitHub does not answer.
"""

Archive = Callable[[Storage], Coroutine[Any, Any, None]]
"""Brings ended runs into the archive.

Raises:
    BotError: the object store does not answer.
    TimeoutError: Redis does not answer.
"""

CleanUp = Callable[[Sequence[RunId]], Awaitable[int]]
MakeRoom = Callable[[Collection[str]], Awaitable[Housekeeping]]
"""Deletes what was least used of what a machine keeps, except for these `owner/name`."""
"""Removes what runs that are not in the list have left behind; returns how much it removed.

Raises:
    TryLater: the sandbox's engine does not answer.
"""


Summarize = Callable[[Storage], Coroutine[Any, Any, None]]
"""Writes the monthly summaries that are due.

Raises:
    TryLater: GitHub does not answer.
"""

SUMMARY_SECONDS: Final = 6 * 3600.0
"""How often is looked whether a monthly summary is due."""


class SweepActions(NamedTuple):
    """What a sweep does outside Redis; None where it does nothing."""

    find_missed: FindMissedEvents | None = None
    clean_up: CleanUp | None = None
    make_room: MakeRoom | None = None
    announce: Announce | None = None
    summarize: Summarize | None = None
    archive: Archive | None = None
    polls: bool = False
    """No webhook is expected, so that none is missing."""


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
        self._summarize = actions.summarize
        self._archive = actions.archive
        self._make_room = actions.make_room
        self._polls = actions.polls
        self._announcer = actions.announce and QueueAnnouncer(storage, nudges, actions.announce)
        self._outage = outage

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
                    work = self.recover(self._find_missed)
                    await self._try_once(work, "look for missed webhooks")
            except UNREACHABLE as error:
                await self._outage.wait(error)
            await asyncio.sleep(self._settings.timings.missed_seconds / 2)

    async def write_summaries(self) -> None:
        """Write the monthly summaries; one worker at a time."""
        while self._summarize is not None:
            try:
                if await self._storage.turns.take_summaries_turn(SUMMARY_SECONDS):
                    work = self._summarize(self._storage)
                    await self._try_once(work, "write monthly summaries")
            except UNREACHABLE as error:
                await self._outage.wait(error)
            await asyncio.sleep(self._settings.timings.missed_seconds)
        await asyncio.Event().wait()

    async def archive_runs(self) -> None:
        """Bring ended runs into the archive; one worker at a time."""
        seconds = self._settings.timings.archive_seconds
        while self._archive is not None:
            try:
                if await self._storage.turns.take_archive_turn(seconds):
                    await self._try_once(self._archive(self._storage), "archive ended runs")
            except UNREACHABLE as error:
                await self._outage.wait(error)
            await asyncio.sleep(seconds / 2)
        await asyncio.Event().wait()

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
        await self._nudges.send(asked.run_id, 0, Mode.FOLLOW_UP.lane)

    async def remove_leftovers(self) -> None:
        """Remove what workers that died on this machine have left behind."""
        while self._clean_up is not None:
            try:
                if removed := await self._clean_up(await self._runs.list_active()):
                    logger.warning("Removed %d leftovers of ended runs", removed)
                await self._make_room_once()
            except UNREACHABLE as error:
                await self._outage.wait(error)
            except TryLater as error:
                logger.warning("Could not look for leftovers: %s", error)
            await asyncio.sleep(self._settings.timings.missed_seconds)
        await asyncio.Event().wait()

    async def _make_room_once(self) -> None:
        if self._make_room is None:
            return
        done = await self._make_room(await self._storage.active_runs.list_repositories())
        for kind, size in done.evicted.items():
            if size:
                logger.info("Deleted %.0f MB of %s that were least used", size / 1e6, kind)
        await self._storage.workers.save_disk_use(socket.gethostname(), done)

    async def _try_once(self, work: Coroutine[Any, Any, None], what: str) -> None:
        """Do `work`; a failure is logged and costs this turn, never the worker."""
        task = asyncio.create_task(work)
        try:
            await asyncio.wait([task])
        finally:
            task.cancel()
        error = task.exception()
        if isinstance(error, (BotError, TimeoutError)):
            logger.warning("Could not %s: %s", what, error)
        elif error:
            logger.error("Could not %s", what, exc_info=error)

    async def recover(self, find_missed: FindMissedEvents) -> None:
        """Handle events whose webhook never arrived. Raises TryLater and redis-py's errors."""
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
                        self._log_found(f"Command {found.id}")

    async def _start_run(self, found: LabeledIssue) -> None:
        """Have the run that the label asks for, unless it was answered."""
        asked = await request_labeled_run(found, self._storage, self._nudges)
        if asked.outcome is StartOutcome.CREATED:
            self._log_found(f"Run {asked.run_id}")

    def _log_found(self, what: str) -> None:
        if self._polls:
            logger.info("%s: found by asking GitHub", what)
        else:
            logger.warning("%s: its webhook never arrived", what)

    async def _stop_run(self, found: IssueSnapshot) -> None:
        """Have a run stopped whose label is off, whose issue is closed, or that is unwanted."""
        run = await self._runs.get_current(found.repo, found.issue)
        if run is None:
            return
        off = run.label and not has_label(found.labels, run.label)
        worn = LabelSet(self._settings.label).find_opt_out(found.labels)
        if worn is not None and not found.closed:
            stop = Stop(by=Login(""), why=StopReason.DISABLED, label=worn)
            await self._runs.request_stop(found.repo, found.issue, stop)
        elif found.closed or off:
            why = StopReason.CLOSED if found.closed else StopReason.UNLABELED
            await self._runs.request_stop(found.repo, found.issue, Stop(by=Login(""), why=why))
