"""What only one worker does at a time or at most once in a while, and how far it has come."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import Final, cast

from redis.asyncio import Redis

from bot.github.models import Cursor
from bot.storage.client import UNREACHABLE, plain_client
from bot.storage.keys import DAY, RECORD_SECONDS, SUMMARY_SECONDS, Keys
from bot.storage.records import read_or_skip
from bot.types import RepoRef, RunId, now
from pipeline.records import encode_record


class Turns:
    """Locks that expire by themselves. Every method raises redis-py's errors."""

    def __init__(self, redis: Redis, keys: Keys) -> None:
        self._redis = redis
        self._keys = keys

    async def take_queue_turn(self, seconds: float) -> bool:
        """True for one caller in `seconds`: the worker that announces positions in the queue."""
        return await self._take(self._keys.queue_turn, seconds)

    async def take_missed_webhooks_turn(self, seconds: float) -> bool:
        """True for one caller in `seconds`: the worker that looks for missed webhooks.

        Workers that look often do not wait for those that look seldom.
        """
        return await self._take(f"{self._keys.missed_webhooks_turn}:{seconds:g}", seconds)

    async def take_summaries_turn(self, seconds: float) -> bool:
        """True for one caller in `seconds`: the worker that writes monthly summaries."""
        return await self._take(self._keys.summaries_turn, seconds)

    async def take_archive_turn(self, seconds: float) -> bool:
        """True for one caller in `seconds`: the worker that archives ended runs."""
        return await self._take(self._keys.archive_turn, seconds)

    async def is_summary_due(self, repo: RepoRef, month: str) -> bool:
        """Whether nobody has lately looked into the summary of `month` (`YYYY-MM`)."""
        return not await self._redis.exists(self._keys.summary(repo, month))

    async def mark_summary(self, repo: RepoRef, month: str, *, written: bool) -> None:
        """Remember that the summary is written, or for a day that none is wanted."""
        seconds = SUMMARY_SECONDS if written else DAY
        await self._redis.set(self._keys.summary(repo, month), "1", ex=seconds)

    async def mark_served(self, owner: str) -> None:
        """A run of the owner has just begun."""
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
        key = self._keys.edit_turn(run_id)
        while seconds and not await self._take(key, seconds):
            left = await self._redis.pttl(key)
            await asyncio.sleep(max(left, 1) / 1000)

    async def mark_edited(self, run_id: RunId, seconds: float) -> None:
        """The status comment has been edited now. Lost while Redis does not answer."""
        if seconds:
            key, pause = self._keys.edit_turn(run_id), int(seconds * 1000)
            with suppress(*UNREACHABLE):
                await plain_client(self._redis).set(key, "1", px=pause)

    async def _take(self, key: str, seconds: float) -> bool:
        return bool(await self._redis.set(key, "1", nx=True, px=int(seconds * 1000)))


class Cursors:
    """Up to which time each repository was searched for missed webhooks.

    Every method raises redis-py's errors.
    """

    def __init__(self, redis: Redis, keys: Keys) -> None:
        self._redis = redis
        self._keys = keys

    async def get(self, repo: RepoRef) -> Cursor | None:
        """None for a repository that was not searched in the last 30 days."""
        kept = await self._redis.get(self._keys.cursor(repo))
        return read_or_skip(Cursor, kept, f"The cursor of {repo.full_name}")

    async def set(self, repo: RepoRef, cursor: Cursor) -> None:
        """To be called once everything that the search found is dealt with."""
        await self._redis.set(self._keys.cursor(repo), encode_record(cursor), ex=RECORD_SECONDS)


_ARCHIVED: Final = b"1"
_NOT_ARCHIVED: Final = b"0"


class ArchivedRuns:
    """Which ended runs have been dealt with for the archive, and which are in it.

    Every method raises redis-py's errors.
    """

    def __init__(self, redis: Redis, keys: Keys) -> None:
        self._redis = redis
        self._keys = keys

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
            marks = await self._redis.mget([self._keys.archive_mark(run_id) for run_id in ids])
            ends = (end for _, end in batch)
            found += [
                (run_id, end)
                for run_id, end, mark in zip(ids, ends, marks, strict=True)
                if mark is None
            ]
        return found[:most]

    async def mark_done(self, run_id: RunId, ended: float, *, archived: bool) -> None:
        """Remember that the run is in the archive, or that nothing of it can be brought there."""
        mark = _ARCHIVED if archived else _NOT_ARCHIVED
        async with self._redis.pipeline(transaction=True) as pipe:
            pipe.set(self._keys.archive_mark(run_id), mark, ex=RECORD_SECONDS)
            pipe.set(self._keys.archive_cursor, repr(ended), ex=RECORD_SECONDS)
            await pipe.execute()

    async def is_archived(self, run_id: RunId) -> bool:
        """Whether the run's bundle is in the archive."""
        return await self._redis.get(self._keys.archive_mark(run_id)) == _ARCHIVED
