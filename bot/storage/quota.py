"""What has limits: the runs and the refusals of a day, and our writes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import timedelta
from typing import Final

from redis.asyncio import Redis

from bot.data.run import Login, RepoRef, RunId, now
from bot.settings import Timings
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


# An hour or a minute begins with its first write. The answer is 0, or the milliseconds until one of
# them ends in which no write is left.
TAKE_SCRIPT: Final = """
local wait = 0
for i, key in ipairs(KEYS) do
  if tonumber(redis.call('GET', key) or '0') >= tonumber(ARGV[2 * i - 1]) then
    wait = math.max(wait, redis.call('PTTL', key), 1)
  end
end
if wait > 0 then return wait end
for i, key in ipairs(KEYS) do
  if redis.call('INCR', key) == 1 then redis.call('PEXPIRE', key, ARGV[2 * i]) end
end
return 0
"""
MINUTE: Final = 60.0

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


class InstallationWrites:
    """The `WriteBudget` of one installation, for all workers."""

    def __init__(self, redis: Redis, key: str, timings: Timings, render: RenderNotice) -> None:
        self._redis = redis
        self._key = key
        self._timings = timings
        self._render = render

    async def take(self, share: float, *, creates: bool) -> float:
        of = self._timings
        keys = [self._key, *([f"{self._key}:minute"] if creates else [])]
        args = [
            int(of.hourly_writes * share), int(of.hourly_writes_seconds * 1000),
            int(of.minute_writes * share), int(MINUTE * 1000),
        ]  # fmt: skip
        return int(await run_script(self._redis, TAKE_SCRIPT, keys, args)) / 1000

    async def block(self, seconds: float) -> None:
        """See `WriteBudget`. A shorter block leaves a longer one as it is."""
        if seconds > await self.get_block():
            until = now().timestamp() + seconds
            await self._redis.set(f"{self._key}:blocked", until, px=max(1, int(seconds * 1000)))

    async def get_block(self) -> float:
        until = await self._redis.get(f"{self._key}:blocked")
        return max(0.0, float(until) - now().timestamp()) if until else 0.0

    async def claim_notice(self, seconds: float) -> str:
        if int(await self._redis.get(self._key) or 0) < self._timings.hourly_writes:
            return ""  # a minute's wait is not worth a comment
        notice = f"{self._key}:notice"
        if not await self._redis.set(notice, "1", nx=True, px=max(1, int(seconds * 1000))):
            return ""
        at = now() + timedelta(seconds=seconds)
        return self._render(self._timings.hourly_writes, f"{at:%H:%M} UTC")
