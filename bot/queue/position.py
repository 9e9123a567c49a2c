"""Whose turn it is, and each run's place in the queue."""

import heapq
import logging
from collections import Counter
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from datetime import timedelta
from typing import Final, NamedTuple

from bot.data.progress import range_of_durations
from bot.data.run import Lane, QueuePosition, Run, RunStatus, now
from bot.errors import LeaseLost, TryLater
from bot.queue.jobs import RunQueue
from bot.storage.active_runs import ANNOUNCER
from bot.storage.lease import Lease
from bot.storage.storage import Storage
from sandbox.frozen import replace


def owner_of(run: Run) -> str:
    """The organisation or person whose turn it is; GitHub ignores case in names."""
    return run.repo.owner.casefold()


def order_fairly(
    waiting: Iterable[Run], working: Iterable[Run], served: Mapping[str, float]
) -> list[Run]:
    """The waiting runs in the order in which they begin.

    Runs that have begun before come first: they hold what was paid for. Of the others each owner's
    n-th comes before anybody's (n+1)-th, where what the owner has at work counts; among equals the
    owner comes first who was served longest ago (`served`: when, in seconds), then the older run.
    """
    taken = Counter(map(owner_of, working))
    ordered: list[tuple[tuple[int, float], Run]] = []
    for run in sorted(waiting, key=lambda run: (run.created_at, run.id)):
        owner = owner_of(run)
        if run.starts:
            ordered.append(((-1, 0.0), run))
        else:
            ordered.append(((taken[owner], served.get(owner, 0.0)), run))
            taken[owner] += 1
    ordered.sort(key=lambda entry: entry[0])  # stable: the older stays first
    return [run for _, run in ordered]


Announce = Callable[[Lease, QueuePosition], Awaitable[Run]]
"""Announces a run's position on its issue; returns the run. Raises LeaseLost, TryLater."""

ARRIVAL_SECONDS: Final = 2.0
"""How often is looked for runs that nobody has told yet that they wait."""
RETRY_SECONDS: Final = 30.0
"""Until GitHub, which did not take it, is sent the position of a new run again."""
MIN_WAIT: Final = timedelta(seconds=1)
"""A run that no worker has taken up after this long is waiting for a free slot."""
MAX_ANNOUNCED: Final = 20
"""How many positions are announced; runs further back follow when they move up."""
NO_WORKER: Final = -1
"""The position of a run whose issue says that no worker is running."""

logger = logging.getLogger(__name__)


class Waiting(NamedTuple):
    """A run in the queue."""

    run: Run
    position: QueuePosition


async def load_queue(storage: Storage, lane: Lane = Lane.ISSUES) -> list[Waiting]:
    """The runs of the lane that no worker has begun, in their order. Raises redis-py's errors."""
    survey = await storage.active_runs.survey(lane)
    if not survey.idle:
        return []
    working = [run for run in survey.working if run.starts]
    stopping = set(await storage.runs.list_stopping())
    queue = [run for run in survey.idle if _is_unstarted(run) and run.id not in stopping]
    ordered = order_fairly(queue, working, await storage.turns.list_served())
    workers = await storage.workers.list_living()
    slots = sum(worker.slots.get(lane, 0) for worker in workers)
    known = await storage.runs.list_durations() if lane is Lane.ISSUES else []
    durations = range_of_durations(known)
    expected = estimate_waits(len(ordered), working, slots, durations)
    return [
        Waiting(run, QueuePosition(position=place, expected_seconds=wait))
        for place, (run, wait) in enumerate(zip(ordered, expected, strict=True), 1)
    ]


def estimate_waits(
    count: int, working: Sequence[Run], slots: int, durations: tuple[float, float] | None
) -> list[tuple[float, float] | None]:
    """The shortest and longest wait of each of `count` runs in the queue, in seconds.

    Every run is taken to last as long as the middle half of the latest did (`durations`); those at
    work have begun at their own times. None where no worker lives, or too few runs have ended.
    """
    if durations is None or slots == 0:
        return [None] * count
    shortest, longest = durations
    elapsed = [(now() - (run.started_at or now())).total_seconds() for run in working]
    free = [0.0] * max(0, slots - len(working))
    low = [max(0.0, shortest - seconds) for seconds in elapsed] + free
    # One that lasts longer than most may last as long again as a short one.
    high = [max(longest - seconds, shortest) for seconds in elapsed] + free
    waits = zip(_begin_times(count, low, shortest), _begin_times(count, high, longest), strict=True)
    return list(waits)


def _begin_times(count: int, free_at: list[float], seconds: float) -> list[float]:
    heapq.heapify(free_at)
    times: list[float] = []
    for _ in range(count):
        times.append(free_at[0])
        heapq.heapreplace(free_at, free_at[0] + seconds)
    return times


class QueueAnnouncer:
    """Writes to the issue of each waiting run where it stands."""

    def __init__(self, queue: RunQueue, announce: Announce) -> None:
        self._storage = queue.storage
        self._queue = queue
        self._announce = announce

    async def announce(self) -> None:
        """Tell each run at the front whose place has changed. Raises redis-py's errors."""
        for run, position in (await load_queue(self._storage))[:MAX_ANNOUNCED]:
            await self._announce_position(run, position)

    async def announce_new(self) -> None:
        """Tell each run of which nobody knows yet that it waits. Raises redis-py's errors."""
        queue = await load_queue(self._storage)
        new = [one for one in queue if not one.run.queue_position and _waits(one.run)]
        for run, position in new[:MAX_ANNOUNCED]:
            if await self._storage.turns.take(f"queue-arrival:{run.id}", RETRY_SECONDS):
                await self._announce_position(run, position)

    async def announce_no_worker(self) -> None:
        """Tell each run at the front that no worker lives. Raises redis-py's errors."""
        for run, _ in (await load_queue(self._storage))[:MAX_ANNOUNCED]:
            await self._announce_position(run, QueuePosition(position=NO_WORKER))

    async def _announce_position(self, told: Run, position: QueuePosition) -> None:
        if told.queue_position == position.position or not _waits(told):
            return
        lease = await Lease.acquire(self._storage, told.id, worker=ANNOUNCER, seconds=30)
        if lease is None:  # somebody begins it
            return
        try:
            run = await self._announce(lease, position)
            await lease.release(replace(run, queue_position=position.position))
        except TryLater as later:
            logger.warning("Run %s: could not announce its queue position: %s", told.id, later)
            await lease.release(lease.run)
        except LeaseLost:
            return
        # A job that came meanwhile found the run taken.
        await self._queue.send_for(lease.run)


def _waits(run: Run) -> bool:
    return now() - run.created_at >= MIN_WAIT


def _is_unstarted(run: Run) -> bool:
    return run.status is RunStatus.QUEUED and run.starts == 0 and not (run.failure or run.stop)
