"""What each worker does at intervals: recover lost events, stop idle runs, clean up, archive."""

import logging
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Coroutine, Sequence
from contextlib import suppress
from functools import partial
from typing import Any, Final, NamedTuple
from uuid import uuid4

from bot.data.pull import PullRecord
from bot.data.request import (
    SWEEP_PREFIX,
    CommandRequest,
    ConfigCheckRequest,
    IssueRemark,
    MissedEvent,
    PullUpdate,
    RunRequest,
    SetUpRequest,
    StartOutcome,
)
from bot.data.run import IssueSnapshot, Login, Mode, RunId, Stop, StopReason
from bot.errors import BotError, RunFailed, TryLater
from bot.queue.jobs import RunQueue, request_run
from bot.queue.position import ARRIVAL_SECONDS, Announce, QueueAnnouncer
from bot.settings import Timings
from bot.storage.client import UNREACHABLE, Outage
from bot.storage.runs import Runs
from bot.storage.storage import Storage
from bot.storage.workers import Cursors
from bot.webhooks.labels import LabelSet, has_label
from pipeline.concurrency import gather_bounded

MAX_CONCURRENT: Final = 8
"""Stops that one worker reports at a time."""
HOLD_SECONDS: Final = 30.0
"""Until another worker does what one did that is gone."""
RETRY_SECONDS: Final = 30.0
"""Until a stop that could not be reported is tried again; GitHub may not answer."""

StopIdleRun = Callable[[RunId], Awaitable[bool]]
"""Stops the run if that is still wanted; False: a worker has it. Raises redis-py's errors."""


class IdleStops:
    """Stops runs that no worker has. One per worker."""

    def __init__(self, runs: Runs, stop: StopIdleRun) -> None:
        self._runs = runs
        self._stop = stop
        self._not_before: dict[RunId, float] = {}

    async def stop_all(self) -> None:
        """Try each run that is to stop once. Raises redis-py's errors."""
        stopping = await self._runs.list_stopping()
        clock = time.monotonic()
        due = [run_id for run_id in stopping if self._not_before.get(run_id, 0) <= clock]
        self._not_before = {
            run_id: at for run_id, at in self._not_before.items() if run_id in stopping
        }

        async def stop(run_id: RunId) -> None:
            if await self._stop(run_id):
                self._not_before[run_id] = clock + RETRY_SECONDS

        await gather_bounded(MAX_CONCURRENT, (stop(run_id) for run_id in due))


Act = Callable[[], Awaitable[None]]
FindMissedEvents = Callable[[Cursors], AsyncIterator[MissedEvent]]


class SweepActions(NamedTuple):
    """What a sweep does outside Redis; None where it does nothing.

    Each may raise a `BotError` when a service does not answer; it is called again.
    """

    find_missed: FindMissedEvents | None = None
    """Finds what people have asked for, or withdrawn, since the cursors."""
    clean_up: Callable[[Sequence[RunId]], Awaitable[int]] | None = None
    """Removes what runs that are not in the list have left behind; returns how much."""
    make_room: Callable[[Collection[str]], Awaitable[None]] | None = None
    """Deletes what this machine has used least, except for these `owner/name`."""
    announce: Announce | None = None
    archive: Callable[[Storage], Awaitable[None]] | None = None
    """Moves ended runs to the archive."""
    polls: bool = False
    """No webhook is expected, so that none is missing."""


logger = logging.getLogger(__name__)


class Sweep:
    """What every worker does at intervals, some of it in turn with the others."""

    def __init__(
        self,
        queue: RunQueue,
        actions: SweepActions,
        outage: Outage,
        *,
        timings: Timings,
        label: str,
    ) -> None:
        self._storage = queue.storage
        self._runs = queue.runs
        self._queue = queue
        self._actions = actions
        self._outage = outage
        self._timings = timings
        self._label = label

    def list_loops(self) -> list[Coroutine[Any, Any, None]]:
        """Each runs until it is cancelled."""
        timings, actions, storage = self._timings, self._actions, self._storage
        missed = timings.missed_seconds
        loops: list[Coroutine[Any, Any, None]] = [
            self._outage.repeat(timings.sweep_seconds, self.start_follow_ups)
        ]
        if announce := actions.announce:
            announcer = QueueAnnouncer(self._queue, announce)
            loops.append(
                self._take_turns("queue-positions", timings.queue_seconds, announcer.announce)
            )
            loops.append(
                self._take_turns("queue-arrivals", ARRIVAL_SECONDS, announcer.announce_new)
            )
        if find_missed := actions.find_missed:
            act = self._guard(
                "look on GitHub for what was missed", lambda: self.recover(find_missed)
            )
            # Workers that look often do not wait for those that look seldom.
            loops += self._keep_turn(f"missed-webhooks:{missed:g}", missed, act)
        if archive := actions.archive:
            act = self._guard("archive ended runs", lambda: archive(storage))
            loops.append(self._take_turns("archive", timings.archive_seconds, act))
        if actions.clean_up:
            act = self._guard("look for leftovers", self._clean_up)
            loops.append(self._outage.repeat(missed, act))
        return loops

    def _take_turns(self, name: str, seconds: float, act: Act) -> Coroutine[Any, Any, None]:
        """Let one worker in `seconds` act."""

        async def act_in_turn() -> None:
            if await self._storage.turns.take(name, seconds):
                await act()

        return self._outage.repeat(seconds / 2, act_in_turn)

    def _keep_turn(self, name: str, seconds: float, act: Act) -> list[Coroutine[Any, Any, None]]:
        """Let one worker act every so many `seconds`, the same one while it lives."""
        holder, turns = uuid4().hex, self._storage.turns
        hold = partial(turns.hold, name, holder, HOLD_SECONDS)

        async def keep_holding() -> None:
            try:
                await self._outage.repeat(HOLD_SECONDS / 3, hold)
            finally:
                with suppress(*UNREACHABLE):
                    await turns.let_go(name, holder)

        async def act_if_holding() -> None:
            if await hold() and await turns.take(name, seconds):
                await act()

        return [keep_holding(), self._outage.repeat(seconds / 2, act_if_holding)]

    def _guard(self, what: str, act: Act) -> Act:
        """`act`, whose failure is logged and costs this turn, never the worker."""

        async def try_to_act() -> None:
            try:
                await act()
            except UNREACHABLE:
                raise
            except BotError as error:
                cause = error.__cause__ if isinstance(error, TryLater | RunFailed) else None
                logger.warning("Could not %s: %s", what, cause or error)
            except Exception:  # a bug here must not end the runs of this worker
                logger.exception("Could not %s", what)

        return try_to_act

    async def start_follow_ups(self) -> None:
        """Begin a run on each pull request whose time has come. Raises what Redis raises."""
        due = await self._storage.pulls.take_due(again_in=self._timings.follow_up_seconds)
        for record in due:
            await self._start_follow_up(record)

    async def _start_follow_up(self, record: PullRecord) -> None:
        if await self._runs.get_current(record.repo, record.pull) is not None:
            return
        asked = await self._runs.create(
            record.repo,
            record.pull,
            asked_by=record.asked_by,
            delivery=f"{SWEEP_PREFIX}{uuid4().hex}",
            join=False,
            mode=Mode.FOLLOW_UP,
        )
        await self._queue.send(asked.run_id, 0, Mode.FOLLOW_UP.lane)

    async def _clean_up(self) -> None:
        clean_up, make_room = self._actions.clean_up, self._actions.make_room
        if clean_up and (removed := await clean_up(await self._runs.list_active())):
            logger.warning("Removed %d leftovers of ended runs", removed)
        if make_room:
            await make_room(await self._storage.active_runs.list_repositories())

    async def recover(self, find_missed: FindMissedEvents) -> None:
        """Handle events whose webhook never arrived. Raises TryLater and redis-py's errors."""
        async for found in find_missed(self._storage.cursors):
            match found:
                case RunRequest():
                    asked = await request_run(found, self._queue)
                    if asked.outcome is StartOutcome.CREATED:
                        self._log_found(f"Run {asked.run_id}")
                case IssueSnapshot():
                    await self._stop_run(found)
                case PullUpdate() | IssueRemark():
                    if await self._concerns_us(found):
                        await self._queue.put(found)
                case SetUpRequest():
                    await self._queue.put(found)
                case CommandRequest() | ConfigCheckRequest():
                    if await self._queue.put(found):
                        self._log_found(f"Command {found.id}")

    async def _concerns_us(self, found: PullUpdate | IssueRemark) -> bool:
        if isinstance(found, PullUpdate):
            return bool(await self._storage.pulls.find_concerned(found))
        return await self._runs.get_current(found.repo, found.issue) is not None

    def _log_found(self, what: str) -> None:
        if self._actions.polls:
            logger.info("%s: found by asking GitHub", what)
        else:
            logger.warning("%s: its webhook never arrived", what)

    async def _stop_run(self, found: IssueSnapshot) -> None:
        """Have a run stopped whose label is off, whose issue is closed, or that is unwanted."""
        run = await self._runs.get_current(found.repo, found.issue)
        if run is None:
            return
        off = run.label and not has_label(found.labels, run.label)
        worn = LabelSet(self._label).find_opt_out(found.labels)
        if worn is not None and not found.closed:
            stop = Stop(by=Login(""), why=StopReason.DISABLED, label=worn)
            await self._runs.request_stop(found.repo, found.issue, stop)
        elif found.closed or off:
            why = StopReason.CLOSED if found.closed else StopReason.UNLABELED
            await self._runs.request_stop(found.repo, found.issue, Stop(by=Login(""), why=why))
