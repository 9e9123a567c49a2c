"""What has limits: the runs and the refusals of a day, and our writes."""

from collections.abc import Callable
from datetime import timedelta
from typing import Final

from redis.asyncio import Redis

from bot.data.run import Login, RepoRef, RunId, now
from bot.settings import Timings
from bot.storage.client import RedisRecords, run_script
from bot.storage.keys import DAY

MINUTE: Final = 60.0

RenderNotice = Callable[[int, str], str]
"""The notice's text for a number of writes and the time of day at which they go on."""


class QuotaCounter(RedisRecords):
    """Counts the runs of a day. Every method raises redis-py's errors."""

    async def claim(self, run_id: RunId, day: str, counted_by: str, limit: int) -> bool:
        """Count the run, once, unless `counted_by` is at the limit; 0 means unlimited."""
        key = self._keys.quota(counted_by, day)
        return bool(await run_script(self._redis, "count_run", [key], [run_id, 2 * DAY, limit]))


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
        return int(await run_script(self._redis, "take_write", keys, args)) / 1000

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
