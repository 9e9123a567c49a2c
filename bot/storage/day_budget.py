"""Ceilings for one day, of a repository and of all together, kept in Redis by all workers."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from datetime import datetime
from itertools import count
from typing import Final, NamedTuple

from redis.asyncio import Redis

from bot.data.run import RepoRef, RunId, now
from bot.settings import QuotaSettings
from bot.storage.client import run_script
from bot.storage.keys import BUDGET_SECONDS, Keys
from bot.storage.lease import Lease
from bot.storage.workers import InFlightWork
from pipeline.budget import CostBounds, Grant
from pipeline.run_errors import BudgetSpent, Ceiling

# Each key is a hash: `spent`, and a field for each grant: `amount|until`. A settled grant keeps its
# field with the amount 0 until then, so that settling it a second time counts nothing.
RESERVE: Final = """
local time = redis.call('TIME')
local at = tonumber(time[1])
local least, granted = tonumber(ARGV[2]), tonumber(ARGV[3])
for i, key in ipairs(KEYS) do
  local ceiling, spent, held = tonumber(ARGV[5 + i]), 0, 0
  local all = redis.call('HGETALL', key)
  for n = 1, #all, 2 do
    if all[n] == 'spent' then
      spent = tonumber(all[n + 1])
    else
      local amount, untill = string.match(all[n + 1], '^(.-)|(.*)$')
      if tonumber(untill) < at then redis.call('HDEL', key, all[n])
      elseif all[n] ~= ARGV[1] then held = held + tonumber(amount) end
    end
  end
  local left = ceiling - spent
  if left <= 0 or left < least then return {i, tostring(spent), 0} end
  if left - held <= 0 or left - held < least then return {i, tostring(spent), 1} end
  granted = math.min(granted, left - held)
end
for _, key in ipairs(KEYS) do
  redis.call('HSET', key, ARGV[1], string.format('%.9f|%d', granted, at + tonumber(ARGV[4])))
  redis.call('EXPIRE', key, ARGV[5])
end
return {0, string.format('%.9f', granted), 0}
"""
SETTLE: Final = """
for _, key in ipairs(KEYS) do
  local grant = redis.call('HGET', key, ARGV[1])
  local amount, untill = string.match(grant or '', '^(.-)|(.*)$')
  if not grant or tonumber(amount) ~= 0 then
    redis.call('HINCRBYFLOAT', key, 'spent', ARGV[2])
    redis.call('EXPIRE', key, ARGV[3])
    if grant then redis.call('HSET', key, ARGV[1], '0|' .. untill) end
  end
end
"""
DROP: Final = """
for _, key in ipairs(KEYS) do
  for _, field in ipairs(redis.call('HKEYS', key)) do
    if string.sub(field, 1, #ARGV[1]) == ARGV[1] then redis.call('HDEL', key, field) end
  end
end
"""


class _DayLimit(NamedTuple):
    ceiling: Ceiling
    repo: RepoRef | None
    dollars: float


class DayBudget:
    """The `SharedBudget` of one run: nothing is spent that could pass one of the day's ceilings.

    A call counts for the day on which it began.
    """

    def __init__(
        self,
        redis: Redis,
        keys: Keys,
        run_id: RunId,
        limits: tuple[_DayLimit, ...],
        steps: InFlightWork,
        clock: Callable[[], datetime] = now,
    ) -> None:
        self._redis = redis
        self._keys = keys
        self._run_id = run_id
        self._limits = limits
        self._steps = steps
        self._clock = clock
        self._numbers = count()

    @classmethod
    async def open(
        cls,
        lease: Lease,
        settings: QuotaSettings,
        repository_limit: float | None,
        clock: Callable[[], datetime] = now,
    ) -> DayBudget | None:
        """The day's budget for the run that `lease` is for; None when no ceiling is set.

        `repository_limit` is the repository's own ceiling. What an earlier worker had reserved for
        the run is free again.
        """
        limits: list[_DayLimit] = []
        if repository_limit:
            limits.append(_DayLimit("repository", lease.run.repo, repository_limit))
        if settings.budget_day:
            limits.append(_DayLimit("installation", None, settings.budget_day))
        if not limits:
            return None
        storage = lease.storage
        budget = cls(
            storage.redis, storage.keys, lease.run.id, tuple(limits), lease.in_flight, clock
        )
        await budget._run_script(DROP, budget._today(), [f"{lease.run.id}:"])
        return budget

    async def reserve(self, bounds: CostBounds) -> Grant:
        day = self._today()
        # The worker's fence is not needed: a number is used once, and `open` drops older grants.
        name = f"{self._run_id}:{next(self._numbers)}"
        ceilings = [f"{limit.dollars:.9f}" for limit in self._limits]
        args = [f"{bounds.least:.9f}", f"{bounds.most:.9f}", str(int(bounds.seconds) + 1)]
        while True:
            reply = await self._run_script(
                RESERVE, day, [name, *args, str(BUDGET_SECONDS), *ceilings]
            )
            which, dollars, others = int(reply[0]), float(reply[1]), bool(reply[2])
            if which == 0:
                return Grant(f"{day} {name}", dollars)
            if not others:
                limit = self._limits[which - 1]
                raise BudgetSpent(dollars, limit.dollars, limit.ceiling)
            await asyncio.sleep(0.5)  # a call in flight may give money back

    async def settle(self, grant: Grant, dollars: float) -> None:
        day, _, name = grant.name.partition(" ")
        with self._steps.uncancellable():
            await self._run_script(SETTLE, day, [name, f"{dollars:.9f}", str(BUDGET_SECONDS)])

    def _today(self) -> str:
        return self._clock().date().isoformat()

    async def _run_script(self, script: str, day: str, args: list[str]) -> list[bytes]:
        keys = [self._keys.budget(day, limit.repo) for limit in self._limits]
        return await run_script(self._redis, script, keys, args)
