"""Commands on their way from a comment to whoever carries them out; none is lost or done twice.

Whoever takes one has it to themselves for a minute. If they die with it, it comes up again; so
carrying one out must find what an earlier try has done.
"""

from __future__ import annotations

import logging
from datetime import datetime
from typing import Final

from pydantic import Field, ValidationError
from redis.asyncio import Redis

from bot.storage.client import run_script
from bot.storage.keys import DELIVERY_SECONDS, Keys
from bot.triggers.requests import Inspect, Order, Start, Tend
from bot.types import Frozen, now

MINE_SECONDS: Final = 60.0

_NOW: Final = """
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
"""
PUT: Final = f"""{_NOW}
if redis.call('EXISTS', KEYS[1]) == 1 then return 0 end
redis.call('SET', KEYS[1], ARGV[2], 'EX', ARGV[3])
redis.call('ZADD', KEYS[2], now, ARGV[1])
return 1
"""
TAKE: Final = f"""{_NOW}
local ids = redis.call('ZRANGEBYSCORE', KEYS[1], '-inf', now, 'LIMIT', 0, 1)
if #ids == 0 then return false end
redis.call('ZADD', KEYS[1], now + ARGV[2], ids[1])
return {{ids[1], redis.call('GET', ARGV[1] .. ids[1]) or ''}}
"""
LATER: Final = f"""{_NOW}
if not redis.call('ZSCORE', KEYS[2], ARGV[1]) then return end
redis.call('SET', KEYS[1], ARGV[2], 'EX', ARGV[3])
redis.call('ZADD', KEYS[2], now + ARGV[4], ARGV[1])
"""

logger = logging.getLogger(__name__)


class Item(Frozen):
    """A command, or a run wanted by a label that came during another; what has become of it."""

    order: Order | Start | Inspect | Tend
    at: datetime = Field(default_factory=now)
    """When it reached us, by our clock."""
    tries: int = 0
    """How often somebody could not carry it out, by no fault of its own."""
    waits: bool = False
    """Its author was told that it waits for the run that the issue has."""


class Inbox:
    """All commands under one Redis prefix. Every method raises redis-py's errors."""

    def __init__(self, redis: Redis, keys: Keys) -> None:
        self._redis = redis
        self._keys = keys

    async def put(self, order: Order | Start | Inspect | Tend) -> bool:
        """Keep a command until it is carried out; False when it has been put in before."""
        item = Item(order=order)
        keys = [self._keys.order(order.id), self._keys.orders]
        args = [order.id, item.model_dump_json(), DELIVERY_SECONDS]
        return bool(await run_script(self._redis, PUT, keys, args))

    async def take(self) -> Item | None:
        """The one whose turn it is, to oneself for `MINE_SECONDS`; None when there is none."""
        args = [self._keys.order(""), int(MINE_SECONDS * 1000)]
        found = await run_script(self._redis, TAKE, [self._keys.orders], args)
        if found is None:
            return None
        try:
            return Item.model_validate_json(found[1])
        except ValidationError:
            order_id = found[0].decode()
            if not found[1]:
                await self._redis.zrem(self._keys.orders, order_id)
            logger.error("Command %s cannot be read; nobody carries it out", order_id)  # noqa: TRY400 - it may hold what a log must not
            return None

    async def done(self, item: Item) -> None:
        """Carried out. It is remembered for as long as GitHub may deliver it again."""
        await self._redis.zrem(self._keys.orders, item.order.id)

    async def later(self, item: Item, seconds: float) -> None:
        """Keep `item` as it is now, and let it come up again in `seconds`."""
        order_id = item.order.id
        keys = [self._keys.order(order_id), self._keys.orders]
        args = [order_id, item.model_dump_json(), DELIVERY_SECONDS, int(seconds * 1000)]
        await run_script(self._redis, LATER, keys, args)

    async def waiting(self) -> int:
        """How many are not carried out."""
        return int(await self._redis.zcard(self._keys.orders))
