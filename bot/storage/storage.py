"""Everything that the bot keeps in one Redis, behind one object."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Self, cast

from redis.asyncio import ConnectionPool, Redis
from redis.exceptions import ResponseError

from bot.data.run import RunId
from bot.storage.active_runs import ActiveRuns
from bot.storage.client import (
    close_redis,
    connection_pool,
    open_redis,
    plain_client,
    waiting_client,
)
from bot.storage.history import History, RunQueries
from bot.storage.keys import CHECKPOINT_SECONDS, RECORD_SECONDS, Keys
from bot.storage.pulls import PullRecords
from bot.storage.quota import InstallationWrites, QuotaCounter, Refusals, RenderNotice
from bot.storage.requests import Requests
from bot.storage.runs import Runs
from bot.storage.workers import ArchivedRuns, Cursors, Locations, ProgressReports, Turns, Workers

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable

    from bot.data.run import RepoRef
    from bot.settings import Timings
    from bot.storage.checkpoints import CacheStore, RedisStore
    from bot.storage.workers import InFlightWork


class Storage:
    """All records under one prefix.

    A command fails when Redis does not answer, with one of `UNREACHABLE`; what `waiting` returns
    waits instead. `redis` and `keys` are for modules of `bot.storage` and for tests.
    """

    def __init__(self, redis: Redis, prefix: str) -> None:
        self.redis = redis
        self.keys = keys = Keys(prefix)
        self.runs = Runs(redis, keys)
        self.active_runs = ActiveRuns(redis, keys)
        self.run_queries = RunQueries(redis, keys)
        self.pulls = PullRecords(redis, keys)
        self.requests = Requests(redis, keys)
        self.history = History(redis, keys)
        self.progress = ProgressReports(redis, keys)
        self.quota = QuotaCounter(redis, keys)
        self.refusals = Refusals(redis, keys)
        self.locations = Locations(redis, keys)
        self.cursors = Cursors(redis, keys)
        self.turns = Turns(redis, keys)
        self.archived_runs = ArchivedRuns(redis, keys)
        self.workers = Workers(redis, keys)

    @classmethod
    def open(cls, url: str, prefix: str, *, timeout: float) -> Storage:
        """Connect on first use; to be closed, or used as a context manager.

        Raises:
            SettingsError: `url` is not the address of a Redis.
        """
        return cls(open_redis(url, timeout=timeout), prefix)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *error: object) -> None:
        await self.close()

    async def close(self) -> None:
        """Close all connections, also in a task that is cancelled again meanwhile."""
        await close_redis(self.redis)

    async def save_only_findings(self) -> None:
        """Delete all but what is known of environment images, then let Redis write its dump file.

        For a Redis of one's own.
        """
        redis = plain_client(self.redis)
        kept = f"{self.keys.prefix}environment:".encode()
        keys = cast("AsyncIterator[bytes]", redis.scan_iter(count=1000))
        if doomed := [key async for key in keys if not key.startswith(kept)]:
            await redis.delete(*doomed)
        await redis.save()

    def waiting(self) -> Storage:
        """The same records; while Redis does not answer, every command waits and tries again.

        It never gives up by itself: for use under a lease, which cancels its holder in time.
        """
        return Storage(waiting_client(self.redis), self.keys.prefix)

    @property
    def prefix(self) -> str:
        """What every key begins with."""
        return self.keys.prefix

    @property
    def queue_name(self) -> str:
        """arq's queue of jobs."""
        return self.keys.queue

    def name_request_job(self, request_id: str) -> str:
        return self.keys.request(request_id)

    @property
    def connection_pool(self) -> ConnectionPool:
        return connection_pool(self.redis)

    async def ping(self) -> None:
        """Raise an error of `REDIS_ERRORS` unless Redis answers."""
        await self.redis.ping()

    async def get_version(self) -> str:
        facts = await self.redis.info("server")
        return f"{facts['redis_version']}"

    async def check_writes(self) -> None:
        """Raise redis-py's errors unless a key can be written."""
        await self.redis.set(f"{self.keys.app_slug}:doctor", b"", ex=60)

    async def save_app_slug(self, slug: str) -> None:
        await self.redis.set(self.keys.app_slug, slug)

    async def get_app_slug(self) -> str:
        """What GitHub calls the App; empty if no worker has learnt it. Raises redis-py's errors."""
        found = await self.redis.get(self.keys.app_slug)
        return found.decode() if found else ""

    def open_writes(
        self, installation: int, timings: Timings, render: RenderNotice
    ) -> InstallationWrites:
        """The budget of an installation's writes. See `InstallationWrites`."""
        return InstallationWrites(self.redis, self.keys.writes(installation), timings, render)

    async def is_fleeting(self) -> bool:
        """Whether Redis says that it keeps nothing on disk; a hosted one may hide that. Raises
        redis-py's errors."""
        try:
            kept = await self.redis.config_get("*")
        except ResponseError:
            return False
        return kept.get("appendonly") == "no" and not kept.get("save")

    async def find_dangers(self) -> list[str]:
        """What in Redis's own settings may lose runs, one phrase each; empty where it hides them.

        Raises redis-py's errors.
        """
        dangers: list[str] = []
        if await self.is_fleeting():
            dangers.append("it keeps nothing on disk: a restart loses every run")
        memory = await self.redis.info("memory")
        policy = memory.get("maxmemory_policy", "noeviction")
        if memory.get("maxmemory") and policy != "noeviction":
            dangers.append(f"it evicts keys when its memory is full ({policy})")
        return dangers

    # Imported when used: checkpoints know the pipeline, which the web process never loads.

    def checkpoints(self, run_id: RunId, in_flight: InFlightWork | None = None) -> RedisStore:
        """What the pipeline saves for a run. It waits while Redis does not answer."""
        from bot.storage.checkpoints import RedisStore

        return RedisStore(self.redis, self.keys, run_id, in_flight)

    def environment(
        self, image: str, run_id: RunId, in_flight: InFlightWork | None = None
    ) -> CacheStore:
        """What runs with the same environment image share, for seven days; a new result is progress
        of `run_id`."""
        name_key = partial(self.keys.environment, image)
        return self._open_cache(run_id, in_flight, name_key, CHECKPOINT_SECONDS)

    def repository(
        self, repo: RepoRef, run_id: RunId, in_flight: InFlightWork | None = None
    ) -> CacheStore:
        """What the runs of `repo` share, such as how it is installed, for thirty days; a new result
        is progress of `run_id`."""
        name_key = partial(self.keys.repository, repo)
        return self._open_cache(run_id, in_flight, name_key, RECORD_SECONDS)

    def _open_cache(
        self,
        run_id: RunId,
        in_flight: InFlightWork | None,
        name_key: Callable[[str], str],
        seconds: int,
    ) -> CacheStore:
        from bot.storage.checkpoints import CacheStore

        return CacheStore(
            self.redis, self.keys, run_id, in_flight, name_key=name_key, seconds=seconds
        )
