"""Which workers are alive, what only one of them does, what one must finish before it stops."""

import asyncio
import logging
from collections.abc import AsyncGenerator, Awaitable, Generator
from contextlib import asynccontextmanager, contextmanager, suppress
from datetime import datetime, timedelta
from typing import Final, cast

from pydantic import Field

from bot.data.github_facts import Cursor
from bot.data.progress import Progress
from bot.data.run import Lane, RepoRef, RunId, now
from bot.storage.client import UNREACHABLE, RedisRecords, plain_client, read_or_skip
from bot.storage.keys import DAY, RECORD_SECONDS
from pipeline.store import encode_record
from sandbox.frozen import Frozen

QUIET_SECONDS: Final = 0.1
"""For a task to go from one thing that counts to the next."""


class InFlightWork:
    """Counts what would be lost if the run were cancelled now."""

    def __init__(self) -> None:
        self._under_way = 0
        self._unsaved: set[asyncio.Task[object]] = set()
        """Those that were answered and have not saved the answer."""
        self._closing = False
        self._changed = asyncio.Event()

    @asynccontextmanager
    async def billable(self) -> AsyncGenerator[None]:
        """Around what costs money. Once the worker is stopping, nothing new begins: it waits.

        A paid answer counts as work in flight until its task has called `mark_saved` or has ended.
        """
        self.mark_saved()
        if self._closing:
            await asyncio.Event().wait()
        with self.uncancellable():
            yield
            self._unsaved.add(task := _current_task())
            task.add_done_callback(self._forget)

    def mark_saved(self) -> None:
        """What the current task was answered is kept."""
        self._forget(_current_task())

    @contextmanager
    def uncancellable(self) -> Generator[None]:
        """Around what ends soon and should not be cut: saving a result, an effect at GitHub."""
        self._count(+1)
        try:
            yield
        finally:
            self._count(-1)

    async def wait_until_idle(self) -> None:
        """Let nothing new begin; return when what is under way has ended and been saved."""
        self._closing = True
        while True:
            self._changed.clear()
            try:
                busy = self._under_way or self._unsaved
                async with asyncio.timeout(None if busy else QUIET_SECONDS):
                    await self._changed.wait()
            except TimeoutError:
                return

    def _forget(self, task: asyncio.Task[object]) -> None:
        self._unsaved.discard(task)
        self._changed.set()

    def _count(self, change: int) -> None:
        self._under_way += change
        self._changed.set()


def _current_task() -> asyncio.Task[object]:
    task = asyncio.current_task()
    assert task is not None
    return task


HEARTBEAT_SECONDS: Final = 5.0
SILENT_AFTER: Final = timedelta(seconds=30)
"""A worker that was silent for this long counts as gone."""
KEPT: Final = timedelta(days=7)
"""How long the last heartbeat of a worker that is gone is remembered."""

logger = logging.getLogger(__name__)


class WorkerState(Frozen):
    name: str
    slots: dict[Lane, int]
    busy: dict[Lane, int] = Field(default_factory=dict[Lane, int])


class Workers(RedisRecords):
    """Every method raises redis-py's errors."""

    async def save_heartbeat(self, state: WorkerState) -> None:
        keys, at = self._keys, now()
        async with self._redis.pipeline(transaction=False) as pipe:
            pipe.set(keys.worker(state.name), encode_record(state), ex=2 * SILENT_AFTER)
            pipe.zadd(keys.workers, {state.name: at.timestamp()})
            pipe.zremrangebyscore(keys.workers, "-inf", (at - KEPT).timestamp())
            await pipe.execute()

    async def remove(self, name: str) -> None:
        """Forget a worker that ends by itself, but not when it was last heard."""
        await self._redis.delete(self._keys.worker(name))

    async def list_living(self) -> list[WorkerState]:
        """The workers that were heard of lately, in no order."""
        since = (now() - SILENT_AFTER).timestamp()
        names: list[bytes] = await self._redis.zrangebyscore(self._keys.workers, since, "+inf")
        if not names:
            return []
        records = await self._redis.mget([self._keys.worker(name.decode()) for name in names])
        states = [read_or_skip(WorkerState, record, "A worker") for record in records]
        return [state for state in states if state is not None]

    async def get_last_heartbeat(self) -> datetime | None:
        """When a worker was last heard of; None: not within the last week."""
        latest = await self._redis.zrevrange(self._keys.workers, 0, 0, withscores=True)
        return datetime.fromtimestamp(latest[0][1], now().tzinfo) if latest else None


class Turns(RedisRecords):
    """Locks that expire by themselves. Every method raises redis-py's errors."""

    async def take(self, name: str, seconds: float) -> bool:
        """True for one caller in `seconds`."""
        return await self._take(self._keys.turn(name), seconds)

    async def hold(self, name: str, holder: str, seconds: float) -> bool:
        """True for one holder, until it lets go or has not asked for so long."""
        key, pause = self._keys.turn(f"{name}:holder"), int(seconds * 1000)
        if await self._redis.set(key, holder, nx=True, px=pause):
            return True
        if await self._redis.get(key) != holder.encode():
            return False
        return bool(await self._redis.pexpire(key, pause))

    async def let_go(self, name: str, holder: str) -> None:
        key = self._keys.turn(f"{name}:holder")
        if await self._redis.get(key) == holder.encode():
            await self._redis.delete(key)

    async def mark_served(self, owner: str) -> None:
        key, at = self._keys.owners_served, now().timestamp()
        async with self._redis.pipeline(transaction=False) as pipe:
            pipe.zadd(key, {owner: at})
            pipe.zremrangebyscore(key, "-inf", at - DAY)
            await pipe.execute()

    async def list_served(self) -> dict[str, float]:
        """When a run of each owner last began, in seconds; only owners of the last day."""
        served = await self._redis.zrange(self._keys.owners_served, 0, -1, withscores=True)
        return {owner.decode(): at for owner, at in cast("list[tuple[bytes, float]]", served)}

    async def wait_for_edit(self, run_id: RunId, seconds: float) -> None:
        """Return when the last edit of the run's status comment was `seconds` ago."""
        key = self._keys.run(run_id, "edit-turn")
        while seconds and not await self._take(key, seconds):
            left = await self._redis.pttl(key)
            await asyncio.sleep(max(left, 1) / 1000)

    async def mark_edited(self, run_id: RunId, seconds: float) -> None:
        """The status comment has been edited now. Lost while Redis does not answer."""
        if seconds:
            key, pause = self._keys.run(run_id, "edit-turn"), int(seconds * 1000)
            with suppress(*UNREACHABLE):
                await plain_client(self._redis).set(key, "1", px=pause)

    async def _take(self, key: str, seconds: float) -> bool:
        return bool(await self._redis.set(key, "1", nx=True, px=int(seconds * 1000)))


class ProgressReports(RedisRecords):
    """The latest progress of each run, for its page; kept as long as the run's record."""

    async def save(self, run_id: RunId, progress: Progress) -> None:
        """Lost while Redis does not answer; the next report replaces it."""
        key, text = self._keys.run(run_id, "progress"), encode_record(progress)
        with suppress(*UNREACHABLE):
            await plain_client(self._redis).set(key, text, ex=RECORD_SECONDS)

    async def load(self, run_id: RunId) -> Progress:
        """The last report; empty if there was none. Raises redis-py's errors."""
        found: bytes | None = await self._redis.get(self._keys.run(run_id, "progress"))
        return read_or_skip(Progress, found, f"The progress of run {run_id}") or Progress()


class Locations(RedisRecords):
    """The names and the installation of each repository as GitHub last told them.

    Every method raises redis-py's errors.
    """

    async def save(self, *repos: RepoRef) -> None:
        """Remember an answer of GitHub, or an event."""
        records = {str(repo.id): encode_record(repo) for repo in repos}
        saved = self._redis.hset(self._keys.repositories, mapping=records)
        await cast("Awaitable[int]", saved)

    async def update(self, repo: RepoRef) -> RepoRef:
        """The repository with its present names; as it is, if nothing newer was told."""
        asked = self._redis.hget(self._keys.repositories, str(repo.id))
        found = await cast("Awaitable[bytes | None]", asked)
        return read_or_skip(RepoRef, found, f"The names of repository {repo.id}") or repo


class Cursors(RedisRecords):
    """Up to which time each repository was searched for missed webhooks.

    Every method raises redis-py's errors.
    """

    async def get(self, repo: RepoRef) -> Cursor | None:
        """None for a repository that was not searched in the last 30 days."""
        kept = await self._redis.get(self._keys.of_repository("cursor", repo))
        return read_or_skip(Cursor, kept, f"The cursor of {repo.full_name}")

    async def set(self, repo: RepoRef, cursor: Cursor) -> None:
        """To be called once everything that the search found is dealt with."""
        await Locations(self._redis, self._keys).save(repo)  # as GitHub has just listed it
        await self._redis.set(
            self._keys.of_repository("cursor", repo), encode_record(cursor), ex=RECORD_SECONDS
        )


class ArchivedRuns(RedisRecords):
    """Which ended runs have been dealt with for the archive, and which are in it.

    Every method raises redis-py's errors.
    """

    async def list_due(self, ended_by: float, most: int) -> list[tuple[RunId, float]]:
        """Runs that ended by then and are not dealt with, the oldest first, each with its end; both
        in seconds since the epoch."""
        since = (await self._redis.get(self._keys.archive_cursor) or b"-inf").decode()
        found: list[tuple[RunId, float]] = []
        start = 0
        while len(found) < most:
            batch = cast(
                "list[tuple[bytes, float]]",
                await self._redis.zrangebyscore(
                    self._keys.ended, since, ended_by, start=start, num=most, withscores=True
                ),
            )
            if not batch:
                break
            start += len(batch)
            ids = [RunId(name.decode()) for name, _ in batch]
            marks = await self._redis.mget([self._keys.run(run_id, "archived") for run_id in ids])
            ends = (end for _, end in batch)
            found += [
                (run_id, end)
                for run_id, end, mark in zip(ids, ends, marks, strict=True)
                if mark is None
            ]
        return found[:most]

    async def mark_done(self, run_id: RunId, ended: float, *, archived: bool) -> None:
        """Remember that the run is in the archive, or that nothing of it can be brought there."""
        mark = str(int(archived))
        async with self._redis.pipeline(transaction=True) as pipe:
            pipe.set(self._keys.run(run_id, "archived"), mark, ex=RECORD_SECONDS)
            pipe.set(self._keys.archive_cursor, repr(ended), ex=RECORD_SECONDS)
            await pipe.execute()

    async def is_archived(self, run_id: RunId) -> bool:
        return await self._redis.get(self._keys.run(run_id, "archived")) == b"1"
