"""How Redis is reached, and what its absence looks like."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterable, Sequence
from typing import Any, Final, TypeVar, cast

import redis.exceptions
from redis.asyncio import ConnectionPool, Redis
from redis.asyncio.connection import AbstractConnection

from bot.settings import SettingsError

T = TypeVar("T")

logger = logging.getLogger(__name__)

UNREACHABLE: Final = (
    redis.exceptions.ConnectionError,
    redis.exceptions.TimeoutError,
    redis.exceptions.ReadOnlyError,
    OSError,
)
"""Redis is away, starting, or changing places. It passes by itself."""

_REFUSAL_PREFIXES: Final = ("OOM ", "MISCONF ", "NOREPLICAS ")
"""How the errors begin by which Redis takes no writes for now: its memory or its disk is full, or
its replicas are away (https://redis.io/docs/latest/operate/oss_and_stack/management/)."""


class WritesRefused(redis.exceptions.ReadOnlyError):
    """Redis answers, but takes no writes for now."""


FIRST_PAUSE: Final = 0.05
LONGEST_PAUSE: Final = 2.0


def open_redis(url: str, *, timeout: float) -> Redis:
    """A client that gives up on connecting or on one command after `timeout` seconds.

    Raises:
        SettingsError: `url` is not the address of a Redis.
    """
    try:
        pool = ConnectionPool.from_url(url, socket_timeout=timeout, socket_connect_timeout=timeout)
    except ValueError as error:
        raise SettingsError(f"CAPUCHIN_REDIS_URL: {error}") from None
    pool.connection_class = type("Connection", (_CancellableConnection, pool.connection_class), {})
    return Redis.from_pool(pool)


class _CancellableConnection(AbstractConnection):
    """A connection whose user can be cancelled at any moment.

    redis-py writes under `asyncio.wait_for`, which before Python 3.12 may swallow a cancellation
    (https://github.com/python/cpython/issues/86296): a worker then never ends, and a run whose
    lease was lost goes on.
    """

    async def read_response(self, *args: Any, **kwargs: Any) -> Any:
        """As redis-py's own, but what passes by itself is an error that is waited out.

        Raises:
            Refusing: Redis takes no writes for now.
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


async def run_script(
    redis: Redis, script: str, keys: Sequence[str], args: Sequence[str | bytes | int]
) -> Any:
    """The answer of a Lua script, which Redis runs as one step; strings come as bytes."""
    command = cast(Callable[..., Awaitable[Any]], redis.register_script(script))
    return await command(keys=keys, args=args)


async def retry_until_available(command: Callable[[], Awaitable[T]]) -> T:
    """Try `command` until Redis answers.

    Never gives up by itself: the caller is cancelled when its lease runs out.
    """
    pause = FIRST_PAUSE
    while True:
        try:
            return await command()
        except UNREACHABLE:
            await asyncio.sleep(pause)
            pause = min(2 * pause, LONGEST_PAUSE)


class Outage:
    """Says once that Redis went away, and once that it came back, however many ask for it."""

    def __init__(self) -> None:
        self._pause = 0.0

    async def wait(self, error: BaseException) -> None:
        """Say so if it is news, then sleep: longer each time, two seconds at most."""
        if not self._pause:
            logger.warning("Redis does not answer (%s); waiting for it.", error)
        self._pause = min(2 * self._pause, LONGEST_PAUSE) or FIRST_PAUSE
        await asyncio.sleep(self._pause)

    def end(self) -> None:
        """Redis answered."""
        if self._pause:
            logger.warning("Redis answers again.")
        self._pause = 0.0
