"""Ceilings for one day, of a repository and of all together, kept in Redis by all workers."""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from itertools import count
from typing import NamedTuple

from redis.asyncio import Redis

from bot.data.run import RepoRef, RunId, now
from bot.settings import QuotaSettings
from bot.storage.client import run_script
from bot.storage.keys import BUDGET_SECONDS, Keys
from bot.storage.lease import Lease
from bot.storage.workers import InFlightWork
from pipeline.budget import CostBounds, Grant
from pipeline.run_errors import BudgetSpent, Ceiling


class _DayLimit(NamedTuple):
    ceiling: Ceiling
    repo: RepoRef | None
    dollars: float


@dataclass(eq=False)
class DayBudget:
    """The `SharedBudget` of one run: nothing is spent that could pass one of the day's ceilings.

    A call counts for the day on which it began.
    """

    redis: Redis
    keys: Keys
    run_id: RunId
    limits: tuple[_DayLimit, ...]
    steps: InFlightWork
    clock: Callable[[], datetime] = now

    def __post_init__(self) -> None:
        self._numbers = count()

    @classmethod
    async def open(
        cls,
        lease: Lease,
        settings: QuotaSettings,
        repository_limit: float | None,
        clock: Callable[[], datetime] = now,
    ) -> "DayBudget | None":
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
        await budget._run_script("drop_grants", budget._today(), [f"{lease.run.id}:"])
        return budget

    async def reserve(self, bounds: CostBounds) -> Grant:
        day = self._today()
        # The worker's fence is not needed: a number is used once, and `open` drops older grants.
        name = f"{self.run_id}:{next(self._numbers)}"
        ceilings = [f"{limit.dollars:.9f}" for limit in self.limits]
        args = [f"{bounds.least:.9f}", f"{bounds.most:.9f}", str(int(bounds.seconds) + 1)]
        while True:
            reply = await self._run_script(
                "reserve_budget", day, [name, *args, str(BUDGET_SECONDS), *ceilings]
            )
            which, dollars, others = int(reply[0]), float(reply[1]), bool(reply[2])
            if which == 0:
                return Grant(f"{day} {name}", dollars)
            if not others:
                limit = self.limits[which - 1]
                raise BudgetSpent(dollars, limit.dollars, limit.ceiling)
            await asyncio.sleep(0.5)  # a call in flight may give money back

    async def settle(self, grant: Grant, dollars: float) -> None:
        day, _, name = grant.name.partition(" ")
        with self.steps.uncancellable():
            await self._run_script(
                "settle_budget", day, [name, f"{dollars:.9f}", str(BUDGET_SECONDS)]
            )

    def _today(self) -> str:
        return self.clock().date().isoformat()

    async def _run_script(self, script: str, day: str, args: list[str]) -> list[bytes]:
        keys = [self.keys.budget(day, limit.repo) for limit in self.limits]
        return await run_script(self.redis, script, keys, args)
