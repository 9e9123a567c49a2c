"""The Redis client; what its errors and unreadable records mean."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterable, Sequence
from contextlib import AsyncExitStack
from datetime import datetime, timedelta
from functools import partial
from typing import Any, Final, TypeVar, cast

import redis.exceptions
from pydantic import BaseModel, ConfigDict
from pydantic_core import from_json
from redis.asyncio import ConnectionPool, Redis
from redis.asyncio.connection import AbstractConnection, Connection, SSLConnection
from redis.asyncio.retry import Retry
from redis.asyncio.sentinel import Sentinel
from redis.backoff import ExponentialBackoff
from redis.crc import key_slot

from bot.data.run import Failure, Login, Mode, RepoRef, Run, RunId, RunStatus, now
from bot.settings import RedisUrl, SettingsError, parse_redis_url
from bot.storage.keys import RECORD_SECONDS, Keys
from pipeline.run_errors import OtherFormat, UnreadableRecord
from pipeline.store import decode_record
from sandbox.frozen import replace

M = TypeVar("M", bound=BaseModel)

NEWER_GRACE: Final = timedelta(hours=1)
"""Workers of two versions run side by side during an upgrade: a run of the newer version is theirs
for so long."""

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


class _AnyRun(BaseModel):
    """What the record of a run holds in every format."""

    model_config = ConfigDict(extra="ignore")

    id: RunId
    repo: RepoRef
    issue: int
    asked_by: Login
    delivery: str
    mode: Mode = Mode.FIX
    label: str = ""
    status: RunStatus = RunStatus.RUNNING
    comment_id: int | None = None
    created_at: datetime


class RunsOfAnyFormat:
    """Reads the records of active runs such that none can block its issue."""

    def __init__(self, redis: Redis, keys: Keys) -> None:
        self._redis = redis
        self._keys = keys

    async def read(self, run_id: RunId, record: bytes | None) -> Run | None:
        """The run. One whose record cannot be read comes as one that failed, to be reported.

        None without a record, and if too little in it is known. Raises redis-py's errors.

        Raises:
            OtherFormat: a newer version saved it, and a worker of that version may continue it.
        """
        if record is None:
            return None
        try:
            return decode_record(Run, record, f"Run {run_id}")
        except OtherFormat as error:
            if error.is_newer and not await self._is_grace_over(run_id, error):
                raise
            return _salvage(record, error)
        except UnreadableRecord as error:
            return _salvage(record, error)

    async def _is_grace_over(self, run_id: RunId, error: OtherFormat) -> bool:
        key, at = self._keys.first_skipped(run_id), now().timestamp()
        if await self._redis.set(key, f"{at:.0f}", nx=True, ex=RECORD_SECONDS):
            logger.warning("%s A newer worker may continue it.", error)
        first: bytes | None = await self._redis.get(key)
        return first is not None and at - float(first) >= NEWER_GRACE.total_seconds()


def _salvage(record: bytes, error: UnreadableRecord) -> Run | None:
    try:
        found = from_json(record)
        known = _AnyRun.model_validate(cast("dict[str, Any]", found).get("record", found))
    except (ValueError, AttributeError):  # pydantic's error is a ValueError
        logger.error("%s The record is dropped.", error)  # noqa: TRY400 - the sentence says all
        return None
    run = Run(**known.model_dump())
    if run.status.final:
        return run
    logger.warning("%s The run ends now.", error)
    return replace(run, status=RunStatus.RUNNING, failure=Failure.OTHER_FORMAT, detail=str(error))


UNREACHABLE: Final = (
    redis.exceptions.ConnectionError,
    redis.exceptions.TimeoutError,
    redis.exceptions.ReadOnlyError,
    OSError,
)
"""Redis is away, starts, or moves to another host. It passes by itself."""

REDIS_ERRORS: Final = (redis.exceptions.RedisError, OSError)
"""Every error that a command to Redis raises."""

_REFUSAL_PREFIXES: Final = ("OOM ", "MISCONF ", "NOREPLICAS ")
"""How the errors begin with which Redis refuses writes for now: its memory or its disk is full, or
its replicas are away (https://redis.io/docs/latest/operate/oss_and_stack/management/)."""


class WritesRefused(redis.exceptions.ReadOnlyError):
    """Redis answers, but refuses writes for now."""


Address = tuple[str, int]
FindPrimary = Callable[[], Awaitable[Address]]

_MOVED: Final = ("MOVED ", "ASK ", "CLUSTERDOWN ", "TRYAGAIN ")
"""How the errors begin by which a node of a cluster says that another has a key, or soon will
(https://redis.io/docs/latest/operate/oss_and_stack/reference/cluster-spec/)."""

FIRST_PAUSE: Final = 0.05
LONGEST_PAUSE: Final = 2.0


def open_redis(url: str, *, timeout: float, prefix: str = "") -> Redis:
    """A client that gives up on connecting or on one command after `timeout` seconds.

    In a cluster it reaches the keys under `prefix`.

    Raises:
        SettingsError: `url` is not the address of a Redis.
    """
    limits = {"socket_timeout": timeout, "socket_connect_timeout": timeout}
    try:
        place = parse_redis_url(url)
        pool = ConnectionPool.from_url(place.url, **limits)
    except ValueError as error:
        raise SettingsError(f"CAPUCHIN_REDIS_URL: {error}") from None
    base, options = pool.connection_class, cast("dict[str, Any]", pool.connection_kwargs)
    if place.kind != "single":
        options["find_primary"] = _build_finder(place, prefix, options)
        base = _PrimarySSLConnection if issubclass(base, SSLConnection) else _PrimaryConnection
        pool.connection_class = base
    return _make_cancellable(Redis.from_pool(pool))


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
            if isinstance(error, redis.exceptions.OutOfMemoryError) or any(
                word in message[:200] for word in _REFUSAL_PREFIXES
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


class _PrimaryConnection(Connection):
    """A connection that first asks Sentinels or a cluster which server has our keys.

    redis-py's own clients for the two have no pool that arq can use; here one pool serves both.
    """

    def __init__(self, *, find_primary: FindPrimary, **options: Any) -> None:
        self._find_primary = find_primary
        super().__init__(**options)

    async def connect(self) -> None:
        """As redis-py's own, at the place that is found first."""
        if not self.is_connected:
            self.host, self.port = await self._find_primary()
        await super().connect()

    async def read_response(self, *args: Any, **kwargs: Any) -> Any:
        """As redis-py's own; a server that no longer has our keys counts as away.

        Raises:
            ConnectionError: the next command looks for the server again.
        """
        try:
            return await cast(Callable[..., Awaitable[Any]], super().read_response)(*args, **kwargs)
        except redis.exceptions.ResponseError as error:
            is_read_only = isinstance(error, redis.exceptions.ReadOnlyError)
            if not is_read_only and not str(error).startswith(_MOVED):
                raise
            await self.disconnect(nowait=True)
            message = f"Redis has moved ({error})."
            raise redis.exceptions.ConnectionError(message) from error


class _PrimarySSLConnection(_PrimaryConnection, SSLConnection):
    """The same over TLS."""


def _build_finder(place: RedisUrl, prefix: str, options: dict[str, Any]) -> FindPrimary:
    """How to find the server of the keys under `prefix`. `options` are those of a connection."""
    kept = {k: v for k, v in options.items() if k.startswith(("ssl_", "socket_"))}
    kept["ssl"] = place.url.startswith("rediss:")
    if place.kind == "sentinel":
        return partial(_ask_sentinels, place, kept | dict(place.sentinel_login))
    login = {k: v for k, v in options.items() if k in ("username", "password")}
    return partial(_ask_cluster, place, key_slot(prefix.encode()), kept | login)


async def _ask_sentinels(place: RedisUrl, options: dict[str, Any]) -> Address:
    sentinel = Sentinel(place.hosts, sentinel_kwargs=options)
    async with AsyncExitStack() as stack:
        for client in cast("list[Redis]", cast(Any, sentinel).sentinels):
            stack.push_async_callback(close_redis, _make_cancellable(client))
        return await cast(Any, sentinel).discover_master(place.service)


async def _ask_cluster(place: RedisUrl, slot: int, options: dict[str, Any]) -> Address:
    last: Exception | None = None
    for host, port in place.hosts:
        node = _make_cancellable(Redis(host=host, port=port, **options))
        try:
            # Rows: https://redis.io/docs/latest/commands/cluster-slots/
            rows = await cast(Any, node).execute_command("CLUSTER SLOTS")
            return _find_slot(rows, slot, host)
        except (redis.exceptions.RedisError, OSError) as error:
            last = error
        finally:
            await close_redis(node)
    message = f"No node of the Redis Cluster answers for our keys ({last})."
    raise redis.exceptions.ConnectionError(message) from last


def _find_slot(rows: list[list[Any]], slot: int, asked: str) -> Address:
    for first, last, primary, *_ in rows:
        if first <= slot <= last:
            return primary[0].decode() or asked, primary[1]  # no name: that of the node asked
    raise redis.exceptions.ClusterDownError("no node has the slot")


async def run_script(
    redis: Redis, script: str, keys: Sequence[str], args: Sequence[str | bytes | int]
) -> Any:
    """The answer of a Lua script, which Redis runs as one step; strings come as bytes."""
    command = cast(Callable[..., Awaitable[Any]], redis.register_script(script))
    return await command(keys=keys, args=args)


# redis-py's own retries rather than stamina's: stamina logs each attempt of each command, and an
# outage is logged once (`Outage`).
_FOREVER: Final = Retry(
    ExponentialBackoff(cap=LONGEST_PAUSE, base=FIRST_PAUSE / 2),
    retries=-1,
    supported_errors=cast("tuple[type[redis.exceptions.RedisError], ...]", UNREACHABLE),
)


class _WaitingRedis(Redis):
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

    async def wait(self, error: BaseException) -> None:
        """Log the outage if it is new, then sleep: longer each time, two seconds at most."""
        if not self._pause:
            logger.warning("Redis does not answer (%s); waiting for it.", error)
        self._pause = min(2 * self._pause, LONGEST_PAUSE) or FIRST_PAUSE
        await asyncio.sleep(self._pause)

    def end(self) -> None:
        """Log that Redis answers, after an outage."""
        if self._pause:
            logger.warning("Redis answers again.")
        self._pause = 0.0
