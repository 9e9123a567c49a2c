"""What only one worker does at a time, or what is done at most once in a while."""

from __future__ import annotations

import asyncio
from contextlib import suppress

from redis.asyncio import Redis

from bot.storage.client import UNREACHABLE, plain_client
from bot.storage.keys import Keys


class Turns:
    """Locks that expire by themselves. Every method raises redis-py's errors."""

    def __init__(self, redis: Redis, keys: Keys) -> None:
        self._redis = redis
        self._keys = keys

    async def take_queue_turn(self, seconds: float) -> bool:
        """True for one caller in `seconds`: the worker that announces positions in the queue."""
        return await self._take(self._keys.queue_turn, seconds)

    async def take_missed_webhooks_turn(self, seconds: float) -> bool:
        """True for one caller in `seconds`: the worker that looks for missed webhooks."""
        return await self._take(self._keys.missed_webhooks_turn, seconds)

    async def wait_for_edit(self, run_id: str, seconds: float) -> None:
        """Return when the last edit of the run's status comment was `seconds` ago."""
        key = self._keys.edit_turn(run_id)
        while seconds and not await self._take(key, seconds):
            left = await self._redis.pttl(key)
            await asyncio.sleep(max(left, 1) / 1000)

    async def mark_edited(self, run_id: str, seconds: float) -> None:
        """The status comment has been edited now. Lost while Redis does not answer."""
        if seconds:
            key, pause = self._keys.edit_turn(run_id), int(seconds * 1000)
            with suppress(*UNREACHABLE):
                await plain_client(self._redis).set(key, "1", px=pause)

    async def _take(self, key: str, seconds: float) -> bool:
        return bool(await self._redis.set(key, "1", nx=True, px=int(seconds * 1000)))
