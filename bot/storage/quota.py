"""What has limits: the runs and the refusals of a day, and our writes of an hour."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import timedelta
from typing import Final

from redis.asyncio import Redis

from bot.data.run import Login, RepoRef, RunId, now
from bot.storage.client import RedisRecords, run_script
from bot.storage.keys import DAY

# All or nothing: a run that is over one limit counts against none. One that counts already, which
# an earlier start of it did, stays.
COUNT_SCRIPT: Final = """
for i, key in ipairs(KEYS) do
  local limit = tonumber(ARGV[2 + i])
  if limit > 0 and redis.call('SISMEMBER', key, ARGV[1]) == 0
    and redis.call('SCARD', key) >= limit then return i end
end
for _, key in ipairs(KEYS) do
  redis.call('SADD', key, ARGV[1])
  redis.call('EXPIRE', key, ARGV[2])
end
return 0
"""


# An hour begins with its first write. The answer is 0, or the milliseconds until the hour ends.
TAKE_SCRIPT: Final = """
if tonumber(redis.call('GET', KEYS[1]) or '0') >= tonumber(ARGV[1]) then
  return math.max(redis.call('PTTL', KEYS[1]), 1)
end
if redis.call('INCR', KEYS[1]) == 1 then redis.call('PEXPIRE', KEYS[1], ARGV[2]) end
return 0
"""

RenderNotice = Callable[[int, str], str]
"""The notice's text for a number of writes and the time of day at which they go on."""


class QuotaCounter(RedisRecords):
    """Counts the runs of a day. Every method raises redis-py's errors."""

    async def claim(
        self, run_id: RunId, day: str, counted_by: Sequence[str], limits: Sequence[int]
    ) -> int | None:
        """Count the run, once, for each of `counted_by`, unless one is at its limit.

        The index of that one, or None when the run was counted. A limit of 0 means unlimited.
        """
        keys = [self._keys.quota(one, day) for one in counted_by]
        over = int(await run_script(self._redis, COUNT_SCRIPT, keys, [run_id, 2 * DAY, *limits]))
        return over - 1 if over else None


class Refusals(RedisRecords):
    """Who was refused something today. Every method raises redis-py's errors."""

    async def claim(self, repo: RepoRef, login: Login, request_id: str) -> bool:
        """Whether the refusal of `request_id` is the one that the person is to read today."""
        key = self._keys.last_refusal(repo, login)
        if await self._redis.set(key, request_id, nx=True, ex=DAY):
            return True
        claimed_by: bytes | None = await self._redis.get(key)
        return claimed_by is None or claimed_by == request_id.encode()

    async def release(self, repo: RepoRef, login: Login) -> None:
        """The person did not get to read the refusal."""
        await self._redis.delete(self._keys.last_refusal(repo, login))


class HourlyWrites:
    """The `WriteBudget` of one installation: `most` writes in `seconds`, by all workers."""

    def __init__(
        self, redis: Redis, key: str, *, most: int, seconds: float, render: RenderNotice
    ) -> None:
        self._redis = redis
        self._key = key
        self._most = most
        self._milliseconds = int(seconds * 1000)
        self._render = render

    async def take(self, share: float) -> float:
        """See `WriteBudget`."""
        args = [int(self._most * share), self._milliseconds]
        return int(await run_script(self._redis, TAKE_SCRIPT, [self._key], args)) / 1000

    async def block(self, seconds: float) -> None:
        """See `WriteBudget`. A shorter block leaves a longer one as it is."""
        if seconds > await self.get_block():
            until = now().timestamp() + seconds
            await self._redis.set(f"{self._key}:blocked", until, px=max(1, int(seconds * 1000)))

    async def get_block(self) -> float:
        """See `WriteBudget`."""
        until = await self._redis.get(f"{self._key}:blocked")
        return max(0.0, float(until) - now().timestamp()) if until else 0.0

    async def claim_notice(self, seconds: float) -> str:
        """See `WriteBudget`."""
        notice = f"{self._key}:notice"
        if not await self._redis.set(notice, "1", nx=True, px=max(1, int(seconds * 1000))):
            return ""
        at = now() + timedelta(seconds=seconds)
        return self._render(self._most, f"{at:%H:%M} UTC")
