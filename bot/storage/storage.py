"""Everything that the bot keeps in one Redis, behind one object."""

from __future__ import annotations

from typing import TYPE_CHECKING, Self

from redis.asyncio import ConnectionPool, Redis

from bot.storage.client import connection_pool, open_redis, waiting_client
from bot.storage.cursors import Cursors
from bot.storage.history import History, RunQueries
from bot.storage.keys import Keys
from bot.storage.progress import ProgressReports
from bot.storage.pulls import PullRecords
from bot.storage.quota import QuotaCounter, Refusals
from bot.storage.requests import Requests
from bot.storage.runs import Runs
from bot.storage.turns import Turns

if TYPE_CHECKING:
    from bot.storage.checkpoints import EnvironmentStore, RedisStore
    from bot.storage.draining import InFlightWork


class Storage:
    """All records under one prefix.

    A command fails when Redis does not answer, with one of `UNREACHABLE`; what `waiting` returns
    waits instead. `redis` and `keys` are for modules of `bot.storage` and for tests.
    """

    def __init__(self, redis: Redis, prefix: str) -> None:
        self.redis = redis
        self.keys = keys = Keys(prefix)
        self.runs = Runs(redis, keys)
        self.run_queries = RunQueries(redis, keys)
        self.pulls = PullRecords(redis, keys)
        self.requests = Requests(redis, keys)
        self.history = History(redis, keys)
        self.progress = ProgressReports(redis, keys)
        self.quota = QuotaCounter(redis, keys)
        self.refusals = Refusals(redis, keys)
        self.cursors = Cursors(redis, keys)
        self.turns = Turns(redis, keys)

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
        """Close all connections."""
        await self.redis.aclose()

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
    def nudge_queue(self) -> str:
        """The key of arq's queue."""
        return self.keys.queue

    @property
    def connection_pool(self) -> ConnectionPool:
        """For arq, whose client is its own."""
        return connection_pool(self.redis)

    async def ping(self) -> None:
        """Raise an error of `REDIS_ERRORS` unless Redis answers."""
        await self.redis.ping()

    async def get_version(self) -> str:
        """The version of the Redis server. Raises redis-py's errors."""
        facts = await self.redis.info("server")
        return f"{facts['redis_version']}"

    # Imported when used: checkpoints know the pipeline, which the web process never loads.

    def checkpoints(self, run_id: str, in_flight: InFlightWork | None = None) -> RedisStore:
        """What the pipeline saves for a run. It waits while Redis does not answer."""
        from bot.storage.checkpoints import RedisStore

        return RedisStore(self.redis, self.keys, run_id, in_flight)

    def environment(
        self, image: str, run_id: str, in_flight: InFlightWork | None = None
    ) -> EnvironmentStore:
        """What runs with the same environment image share; a new result is progress of `run_id`."""
        from bot.storage.checkpoints import EnvironmentStore

        return EnvironmentStore(self.redis, self.keys, run_id, in_flight, image=image)
