"""Which workers live, and what each works on: they say so at short intervals."""

from __future__ import annotations

import json
import logging
from collections.abc import Awaitable, Iterable, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Final, NamedTuple, cast

from pydantic import Field
from redis.asyncio import Redis

from bot.storage.keys import Keys
from bot.storage.records import read_or_skip
from bot.types import Frozen, Lane, now
from pipeline.records import encode_record

HEARTBEAT_SECONDS: Final = 5.0
SILENT_AFTER: Final = timedelta(seconds=30)
"""A worker that was not heard of for so long counts as gone."""
DISK_USE_KEPT: Final = timedelta(hours=1)
KEPT: Final = timedelta(days=7)
"""For so long the last heartbeat of a worker that is gone is remembered."""

logger = logging.getLogger(__name__)


class WorkerState(Frozen):
    """What a worker says of itself."""

    name: str
    slots: dict[Lane, int]
    """How many runs of each lane it works on at most."""
    busy: dict[Lane, int] = Field(default_factory=dict[Lane, int])
    """How many it works on."""


class Measurements(NamedTuple):
    """What workers measured."""

    gauges: Sequence[Mapping[str, float]]
    """Of each living worker; see `bot.telemetry.gauges`."""
    histograms: Mapping[str, float]
    """See `bot.telemetry.histograms.read_series`."""


class DiskUse(Frozen):
    """What one machine keeps for runs to come, in bytes by kind."""

    kept: dict[str, int]
    limits: dict[str, int]


class Housekeeping(NamedTuple):
    """What looking after the room on a machine came to."""

    use: DiskUse
    evicted: dict[str, int]
    """Bytes that had to go, by kind."""


class Workers:
    """Every method raises redis-py's errors."""

    def __init__(self, redis: Redis, keys: Keys) -> None:
        self._redis = redis
        self._keys = keys

    async def save_heartbeat(self, state: WorkerState) -> None:
        """Record that the worker lives now."""
        keys, at = self._keys, now()
        async with self._redis.pipeline(transaction=False) as pipe:
            pipe.set(keys.worker(state.name), encode_record(state), ex=2 * SILENT_AFTER)
            pipe.zadd(keys.workers, {state.name: at.timestamp()})
            pipe.zremrangebyscore(keys.workers, "-inf", (at - KEPT).timestamp())
            await pipe.execute()

    async def save_measurements(
        self, name: str, gauges: Mapping[str, float], added: Mapping[str, float]
    ) -> None:
        """Keep the gauges of a worker while it lives, and add to the histograms of all workers."""
        await self._redis.set(self._keys.gauges(name), json.dumps(dict(gauges)), ex=SILENT_AFTER)
        async with self._redis.pipeline(transaction=True) as pipe:  # all samples or none
            for field, value in added.items():
                pipe.hincrbyfloat(self._keys.histograms, field, value)
            await pipe.execute()

    async def load_measurements(self, names: Iterable[str]) -> Measurements:
        """What the living workers, `names`, and all workers that ever were have measured."""
        keys = [self._keys.gauges(name) for name in names]
        records: list[bytes | None] = await self._redis.mget(keys) if keys else []
        fields = await cast(
            "Awaitable[dict[bytes, bytes]]", self._redis.hgetall(self._keys.histograms)
        )
        return Measurements(
            [json.loads(record) for record in records if record is not None],
            {name.decode(): float(value) for name, value in fields.items()},
        )

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

    async def save_disk_use(self, host: str, done: Housekeeping) -> None:
        """Record what a machine keeps, and what it has just deleted."""
        keys, at = self._keys, now()
        async with self._redis.pipeline(transaction=False) as pipe:
            pipe.set(keys.disk_use(host), encode_record(done.use), ex=DISK_USE_KEPT)
            pipe.zadd(keys.machines, {host: at.timestamp()})
            pipe.zremrangebyscore(keys.machines, "-inf", (at - DISK_USE_KEPT).timestamp())
            for kind, count in done.evicted.items():
                pipe.hincrby(keys.evictions, kind, count)
            await pipe.execute()

    async def list_disk_use(self) -> list[DiskUse]:
        """Of every machine that a worker measured within the last hour."""
        hosts: list[bytes] = await self._redis.zrange(self._keys.machines, 0, -1)
        if not hosts:
            return []
        found = await self._redis.mget([self._keys.disk_use(host.decode()) for host in hosts])
        uses = [read_or_skip(DiskUse, record, "A machine's disk use") for record in found]
        return [use for use in uses if use is not None]

    async def count_evictions(self) -> dict[str, int]:
        """Bytes of each kind that were ever deleted for want of room."""
        found = await cast(
            "Awaitable[dict[bytes, bytes]]", self._redis.hgetall(self._keys.evictions)
        )
        return {kind.decode(): int(count) for kind, count in found.items()}

    async def get_last_heartbeat(self) -> datetime | None:
        """When a worker was last heard of; None: not within the last week."""
        latest = await self._redis.zrevrange(self._keys.workers, 0, 0, withscores=True)
        return datetime.fromtimestamp(latest[0][1], now().tzinfo) if latest else None
