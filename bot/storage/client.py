"""The Redis client; what its errors and unreadable records mean."""

import asyncio
import logging
import re
from collections.abc import Awaitable, Callable, Iterable, Sequence
from functools import cache
from pathlib import Path
from typing import Any, Final, TypeVar, cast

import redis.exceptions
from pydantic import BaseModel
from redis.asyncio import ConnectionPool, Redis
from redis.asyncio.client import Pipeline
from redis.asyncio.connection import AbstractConnection, SSLConnection
from redis.asyncio.retry import Retry
from redis.asyncio.sentinel import Sentinel, SentinelConnectionPool
from redis.backoff import ExponentialBackoff

from bot.settings import RedisUrl, SettingsError, parse_redis_url
from bot.storage.keys import Keys
from pipeline.run_errors import UnreadableRecord
from pipeline.store import decode_record
from sandbox.connection_errors import connection_cause

M = TypeVar("M", bound=BaseModel)

logger = logging.getLogger(__name__)


def read_or_skip(kind: type[M], data: bytes | None, name: str) -> M | None:
    """The record; None without one, and for one that cannot be read, which is logged."""
    if data is None:
        return None
    try:
        return decode_record(kind, data, name)
    except UnreadableRecord as error:
        logger.error("%s", error)  # noqa: TRY400 - the sentence says all
        return None


class RedisRecords:
    def __init__(self, redis: Redis, keys: Keys) -> None:
        self._redis = redis
        self._keys = keys


UNREACHABLE: Final = (
    redis.exceptions.ConnectionError,
    redis.exceptions.TimeoutError,
    redis.exceptions.ReadOnlyError,
    OSError,
)
"""Redis is down, starting, or moving to another host. It recovers by itself."""

REDIS_ERRORS: Final = (redis.exceptions.RedisError, OSError)
"""Every error that a command to Redis raises."""


class WritesRefused(redis.exceptions.ReadOnlyError):
    """Redis answers, but refuses writes for now."""


def describe_redis_error(error: BaseException) -> str:
    """Why a command failed; of a connection, its address and our words."""
    cause = connection_cause(error)
    text = " ".join(str(error).split())[:300]
    if cause and (place := re.search(r" connecting to (\S+?)\.(?: |$)", text)):
        return f"{place[1]}: {cause}"
    return f"{text} ({cause})" if cause and cause.lower() not in text.lower() else text


def explain_outage(error: BaseException) -> str:
    """What is the matter with Redis, in a sentence that names no address and has no full stop."""
    match error:
        case redis.exceptions.BusyLoadingError():
            return "Redis is still loading its data"
        # "NOREPLICAS Not enough good replicas to write" is another matter.
        case redis.exceptions.ReadOnlyError() if "read only replica" in str(error):
            return "Redis is a replica, which takes no writes"
        case redis.exceptions.ReadOnlyError():
            return "Redis takes no writes: its memory or disk is full, or its replicas are away"
        case redis.exceptions.AuthenticationError():
            return "Redis refuses the name or the password of CAPUCHIN_REDIS_URL"
        case _:
            return "Redis does not answer"


FIRST_PAUSE: Final = 0.05
LONGEST_PAUSE: Final = 2.0


def open_redis(url: str, *, timeout: float) -> Redis:
    """A client that gives up on connecting or on one command after `timeout` seconds.

    Raises:
        SettingsError: `url` is not the address of a Redis.
    """
    try:
        place = parse_redis_url(url)
        pool = ConnectionPool.from_url(
            place.url, socket_timeout=timeout, socket_connect_timeout=timeout
        )
    except ValueError as error:
        raise SettingsError(f"CAPUCHIN_REDIS_URL: {error}") from None
    pool = _SentinelPool(place, pool) if place.service else pool
    return _make_cancellable(CancellableRedis.from_pool(pool))


async def close_redis(redis: Redis) -> None:
    """Close all connections, also in a task that is cancelled again meanwhile."""
    closing = asyncio.ensure_future(redis.aclose())
    await asyncio.shield(closing)


def _make_cancellable(redis: Redis) -> Redis:
    """The same client; for connections that it has not opened yet."""
    pool = connection_pool(redis)
    pool.connection_class = type("Connection", (_CancellableConnection, pool.connection_class), {})
    return redis


class _CancellableConnection(AbstractConnection):
    """A connection whose user can be cancelled at any moment.

    redis-py writes under `asyncio.wait_for`, which before Python 3.12 may swallow a cancellation
    (https://github.com/python/cpython/issues/86296): a worker then never ends, and a run whose
    lease was lost goes on.
    """

    async def read_response(self, *args: Any, **kwargs: Any) -> Any:
        """As redis-py's own, but a refusal of writes is one of `UNREACHABLE`.

        Raises:
            WritesRefused: Redis refuses writes for now.
        """
        try:
            return await cast(Callable[..., Awaitable[Any]], super().read_response)(*args, **kwargs)
        except redis.exceptions.ResponseError as error:
            # redis-py takes the first word off where it knows it, and scripts put more before it.
            message = str(error)
            # It is a replica, its memory or its disk is full, or its replicas are away:
            # https://redis.io/docs/latest/operate/oss_and_stack/management/
            if isinstance(error, redis.exceptions.OutOfMemoryError) or any(
                word in message[:200] for word in ("OOM ", "MISCONF ", "NOREPLICAS ", "READONLY ")
            ):
                raise WritesRefused(message) from None
            raise

    async def send_packed_command(
        self, command: bytes | str | Iterable[bytes], check_health: bool = True
    ) -> None:
        timeout = self.socket_timeout
        self.socket_timeout = None  # the connection is this task's alone until the answer
        try:
            async with asyncio.timeout(timeout):
                await super().send_packed_command(command, check_health)
        finally:
            self.socket_timeout = timeout


class CancellablePipeline(Pipeline):
    """A pipeline that keeps no connection of its pool, whenever its user is cancelled.

    redis-py's own asks Redis to watch no key before it gives its connection back; cancelled there,
    it never does, and each such connection counts against the pool and the server until the end.
    """

    async def reset(self) -> None:
        try:
            await super().reset()
        except BaseException:
            # redis-py types both as its synchronous ones.
            if connection := cast("AbstractConnection | None", self.connection):
                self.connection = None
                await connection.disconnect(nowait=True)  # which ends all watching
                await cast(ConnectionPool, self.connection_pool).release(connection)
            raise


class CancellableRedis(Redis):
    """A client whose users can be cancelled while they hold a pipeline."""

    def pipeline(self, transaction: bool = True, shard_hint: str | None = None) -> Pipeline:
        return CancellablePipeline(
            connection_pool(self), self.response_callbacks, transaction, shard_hint
        )


class _SentinelPool(SentinelConnectionPool):
    """Connections to the primary that the Sentinels name; closing it closes those to them too."""

    def __init__(self, place: RedisUrl, plain: ConnectionPool) -> None:
        """`plain` has the options of a connection to the server."""
        options = cast("dict[str, Any]", plain.connection_kwargs)
        names = ("username", "password")
        login = {name: options.pop(f"sentinel_{name}", None) for name in names}
        options["ssl"] = issubclass(plain.connection_class, SSLConnection)
        shared = {k: v for k, v in options.items() if k.startswith(("ssl", "socket_"))}
        sentinel = Sentinel(place.hosts, sentinel_kwargs=shared | login)
        self._sentinels = cast("list[Redis]", cast(Any, sentinel).sentinels)
        for client in self._sentinels:
            _make_cancellable(client)
        super().__init__(place.service, sentinel, **options)

    async def disconnect(self, inuse_connections: bool = True) -> None:
        await super().disconnect(inuse_connections)
        if inuse_connections:
            for client in self._sentinels:
                await close_redis(client)


@cache
def _load_script(name: str) -> str:
    return (Path(__file__).parent / "scripts" / f"{name}.lua").read_text(encoding="utf-8")


async def run_script(
    redis: Redis, name: str, keys: Sequence[str], args: Sequence[str | bytes | int]
) -> Any:
    """The answer of `scripts/NAME.lua`, which Redis runs as one step; strings come as bytes.

    `keys` and `args` are in the order of the names at its head.
    """
    command = cast(Callable[..., Awaitable[Any]], redis.register_script(_load_script(name)))
    return await command(keys=keys, args=args)


# redis-py's own retries rather than stamina's: stamina logs each attempt of each command, and an
# outage is logged once (`Outage`).
_FOREVER: Final = Retry(
    ExponentialBackoff(cap=LONGEST_PAUSE, base=FIRST_PAUSE / 2),
    retries=-1,
    supported_errors=cast("tuple[type[redis.exceptions.RedisError], ...]", UNREACHABLE),
)


class _WaitingRedis(CancellableRedis):
    """A client that repeats a command until Redis answers."""

    def __init__(self, plain: Redis) -> None:
        super().__init__(connection_pool=connection_pool(plain))
        self.plain = plain

    async def execute_command(self, *args: Any, **options: Any) -> Any:
        """As redis-py's own, but raises none of `UNREACHABLE`."""
        send = cast(Callable[..., Awaitable[Any]], super().execute_command)
        return await _FOREVER.call_with_retry(lambda: send(*args, **options), _ignore)


def connection_pool(redis: Redis) -> ConnectionPool:
    return cast(ConnectionPool, redis.connection_pool)  # typed as maybe sync


async def _ignore(error: Exception) -> None:
    """What to do between two attempts."""


def waiting_client(redis: Redis) -> Redis:
    """A client on the same connections whose commands wait while Redis does not answer.

    It never gives up by itself: a caller is cancelled when its lease runs out. A pipeline does not
    wait.
    """
    return redis if isinstance(redis, _WaitingRedis) else _WaitingRedis(redis)


def plain_client(redis: Redis) -> Redis:
    """The client that raises `UNREACHABLE` instead of waiting."""
    return redis.plain if isinstance(redis, _WaitingRedis) else redis


class Outage:
    """Logs once that Redis went away, and once that it came back, however many callers wait."""

    def __init__(self) -> None:
        self._pause = 0.0

    def begin(self, error: BaseException) -> None:
        """Log the outage if it is new."""
        if not self._pause:
            why = describe_redis_error(error)
            keys = {"waits_for": "redis", "why": why}
            logger.warning("%s (%s); waiting for it.", explain_outage(error), why, extra=keys)
            self._pause = FIRST_PAUSE / 2

    async def wait(self, error: BaseException) -> None:
        """Log the outage if it is new, then sleep: longer each time, two seconds at most."""
        self.begin(error)
        self._pause = min(2 * self._pause, LONGEST_PAUSE)
        await asyncio.sleep(self._pause)

    async def repeat(self, seconds: float, act: Callable[[], Awaitable[object]]) -> None:
        """Act every `seconds`, until cancelled; wait while Redis does not answer."""
        while True:
            try:
                await act()
            except UNREACHABLE as error:
                await self.wait(error)
            await asyncio.sleep(seconds)

    def end(self) -> None:
        """Log that Redis answers, after an outage."""
        if self._pause:
            logger.warning("Redis answers again.")
        self._pause = 0.0
