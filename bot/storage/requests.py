"""The queue of requests between webhooks and workers; none is lost or done twice.

A worker that takes a request owns it for a minute. If the worker dies, the request is taken again,
so each effect of a request must find what an earlier try has done.
"""

from __future__ import annotations

import hashlib
import logging
from datetime import datetime
from typing import Final

from pydantic import Field

from bot.data.request import CommandRequest, QueuedKind, RunRequest
from bot.data.run import now
from bot.storage.client import RedisRecords, run_script
from bot.storage.keys import DELIVERY_SECONDS
from pipeline.run_errors import UnreadableRecord
from pipeline.store import decode_record, encode_record
from sandbox.frozen import Frozen

EQUAL_SECONDS: Final = 60.0
"""GitHub's times have whole seconds: a label that is taken off and put back may look the same."""
CLAIM_SECONDS: Final = 60.0
BURST: Final = 20
"""So many requests of a repository are due at once; of what people write, and of the rest."""
SPACING: Final = 200
"""Milliseconds between two further ones: a flood leaves room for other repositories."""

_NOW: Final = """
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
"""
PUT: Final = f"""{_NOW}
if redis.call('EXISTS', KEYS[1]) == 1 then return 0 end
local paced = math.max(now, tonumber(redis.call('GET', KEYS[3])) or 0) + {SPACING}
redis.call('SET', KEYS[3], string.format('%.0f', paced), 'PX', string.format('%.0f', paced - now))
redis.call('SET', KEYS[1], ARGV[2], 'EX', ARGV[3])
redis.call('ZADD', KEYS[2], math.max(now, paced - {BURST * SPACING}), ARGV[1])
return 1
"""
TAKE: Final = f"""{_NOW}
local ids = redis.call('ZRANGEBYSCORE', KEYS[1], '-inf', now, 'LIMIT', 0, 1)
if #ids == 0 then return false end
redis.call('ZADD', KEYS[1], now + ARGV[1], ids[1])
return ids[1]
"""
POSTPONE: Final = f"""{_NOW}
if not redis.call('ZSCORE', KEYS[2], ARGV[1]) then return end
redis.call('SET', KEYS[1], ARGV[2], 'EX', ARGV[3])
redis.call('ZADD', KEYS[2], now + ARGV[4], ARGV[1])
"""

logger = logging.getLogger(__name__)


class QueuedRequest(Frozen):
    """A request of a comment, a label or an event, with its state in the queue."""

    request: QueuedKind
    at: datetime = Field(default_factory=now)
    """When it reached us, by our clock."""
    tries: int = 0
    is_waiting: bool = False
    """Its author has read that it waits for the current run of the issue."""


class Requests(RedisRecords):
    """All requests under one Redis prefix. Every method raises redis-py's errors."""

    async def find_first_delivery(self, body: bytes, delivery: str) -> str:
        """The id under which a signed body came first, which is `delivery` if it is new.

        The signature covers the body alone: anybody who saw one could send it again under a new id.
        Within `EQUAL_SECONDS` of the first, an equal body is an event of its own.
        """
        key = self._keys.body(hashlib.sha256(body).hexdigest())
        if await self._redis.set(key, delivery, nx=True, ex=DELIVERY_SECONDS):
            return delivery
        is_old = DELIVERY_SECONDS - await self._redis.ttl(key) >= EQUAL_SECONDS
        found = await self._redis.get(key) if is_old else None
        return found.decode() if found else delivery

    async def put(self, request: QueuedKind) -> bool:
        """Keep a request until it is completed; False when it was put in before."""
        item = QueuedRequest(request=request)
        pace = self._keys.pace(request.repo, isinstance(request, (CommandRequest, RunRequest)))
        keys = [self._keys.request(request.id), self._keys.requests, pace]
        args = [request.id, encode_record(item), DELIVERY_SECONDS]
        return bool(await run_script(self._redis, PUT, keys, args))

    async def take(self) -> QueuedRequest | None:
        """The next request, owned for `CLAIM_SECONDS`; None when no request is due."""
        claim = [int(CLAIM_SECONDS * 1000)]
        found: bytes | None = await run_script(self._redis, TAKE, [self._keys.requests], claim)
        if found is None:
            return None
        request_id = found.decode()
        record: bytes | None = await self._redis.get(self._keys.request(request_id))
        try:
            return decode_record(QueuedRequest, record or b"", f"Command {request_id}")
        except UnreadableRecord as error:
            # First said, then removed: a worker that is stopped in between has said it.
            logger.error("%s The request is dropped.", error)  # noqa: TRY400 - the sentence says all
            # Without its record, it is put in again if GitHub or the sweep reports it again.
            await self._redis.zrem(self._keys.requests, request_id)
            await self._redis.delete(self._keys.request(request_id))
            return None

    async def complete(self, item: QueuedRequest) -> None:
        """Remove it from the queue. Its id is kept while GitHub may deliver it again."""
        await self._redis.zrem(self._keys.requests, item.request.id)

    async def postpone(self, item: QueuedRequest, seconds: float) -> None:
        """Keep `item` as it is now; it is due again in `seconds`."""
        request_id = item.request.id
        keys = [self._keys.request(request_id), self._keys.requests]
        args = [request_id, encode_record(item), DELIVERY_SECONDS, int(seconds * 1000)]
        await run_script(self._redis, POSTPONE, keys, args)

    async def count(self) -> int:
        return int(await self._redis.zcard(self._keys.requests))
