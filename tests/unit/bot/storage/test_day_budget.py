"""Ceilings for a day, kept in a real Redis by all runs that share them."""

import asyncio
from datetime import UTC, datetime, timedelta

import pytest
from redis.asyncio import Redis

from bot.data.run import Login, RepoRef, Run, RunId
from bot.settings import Settings
from bot.storage.day_budget import DayBudget
from bot.storage.lease import Lease
from bot.storage.storage import Storage
from pipeline.budget import Budget, CostBounds, Grant
from pipeline.concurrency import gather_all
from pipeline.run_errors import BudgetSpent

SHOP = RepoRef(id=1, owner="acme", name="shop", installation=1)
OTHER = RepoRef(id=2, owner="acme", name="Other", installation=1)
NOON = datetime(2026, 5, 4, 12, tzinfo=UTC)


class Office:
    """Purses of runs that share one Redis."""

    def __init__(self, redis: Redis, prefix: str) -> None:
        self.redis, self.storage, self.now = redis, Storage(redis, prefix), NOON

    async def open_budget(
        self, run_id: str, wanted: float | None = None, *, repo: RepoRef = SHOP, day: float = 0
    ) -> DayBudget:
        run = Run(id=RunId(run_id), repo=repo, issue=1, asked_by=Login("ann"), delivery="d")
        lease = Lease(self.storage, run, worker="w", fence=1, seconds=20)
        settings = Settings(budget_day=day)
        day_budget = await DayBudget.open(lease, settings, wanted, lambda: self.now)
        assert day_budget is not None
        return day_budget


@pytest.fixture
def office(redis: Redis, redis_prefix: str) -> Office:
    return Office(redis, redis_prefix)


async def spend(day_budget: DayBudget, dollars: float) -> Grant:
    grant = await day_budget.reserve(CostBounds(dollars, dollars))
    await day_budget.settle(grant, dollars)
    return grant


async def test_runs_of_one_repository_share_its_ceiling(office: Office) -> None:
    first, second = await office.open_budget("a", 1.0), await office.open_budget("b", 1.0)
    await spend(first, 0.6)
    with pytest.raises(BudgetSpent) as caught:
        await second.reserve(CostBounds(0.5, 2.0))
    assert caught.value.of == "repository"
    assert "$0.60 of $1.00" in str(caught.value)
    assert (await second.reserve(CostBounds(0.3, 2.0))).dollars == pytest.approx(0.4)


async def test_all_repositories_share_the_operators_ceiling_for_the_day(office: Office) -> None:
    await spend(await office.open_budget("a", day=1.0), 0.9)
    with pytest.raises(BudgetSpent) as caught:
        await (await office.open_budget("b", repo=OTHER, day=1.0)).reserve(CostBounds(0.2, 0.2))
    assert caught.value.of == "installation"
    await spend(await office.open_budget("c", 0.95, repo=OTHER), 0.9)


async def test_a_new_day_begins_anew(office: Office) -> None:
    day_budget = await office.open_budget("a", 1.0)
    late = await day_budget.reserve(CostBounds(1.0, 1.0))
    office.now += timedelta(days=1)
    await day_budget.settle(late, 1.0)  # counts for the day on which it began
    await spend(day_budget, 1.0)
    with pytest.raises(BudgetSpent):
        await day_budget.reserve(CostBounds(0.1, 0.1))


async def test_calls_side_by_side_do_not_pass_the_ceiling(office: Office) -> None:
    purses = [await office.open_budget(str(n), 1.0) for n in range(4)]
    most = 0.0
    held: list[float] = []

    async def call(day_budget: DayBudget) -> None:
        nonlocal most
        grant = await day_budget.reserve(CostBounds(0.4, 0.4))
        held.append(grant.dollars)
        most = max(most, sum(held))
        await asyncio.sleep(0)
        held.remove(grant.dollars)
        await day_budget.settle(grant, 0.1)

    await gather_all(call(day_budget) for day_budget in purses)
    assert most <= 0.8
    with pytest.raises(BudgetSpent) as caught:
        await purses[0].reserve(CostBounds(0.7, 0.7))
    assert "$0.40" in str(caught.value)


async def test_settling_twice_counts_once(office: Office) -> None:
    day_budget = await office.open_budget("a", 1.0)
    grant = await spend(day_budget, 0.4)
    await day_budget.settle(grant, 0.4)
    assert (await day_budget.reserve(CostBounds(0.6, 0.6))).dollars == pytest.approx(0.6)


async def test_what_a_dead_worker_had_set_aside_is_free_when_its_run_goes_on(
    office: Office,
) -> None:
    await (await office.open_budget("a", 1.0)).reserve(CostBounds(0.9, 0.9))
    again = await office.open_budget("a", 1.0)
    assert (await again.reserve(CostBounds(0.9, 0.9))).dollars == pytest.approx(0.9)


async def test_what_a_run_that_never_goes_on_had_set_aside_is_free_after_its_time(
    office: Office,
) -> None:
    await (await office.open_budget("a", 1.0)).reserve(CostBounds(0.9, 0.9, seconds=0))
    other = await office.open_budget("b", 1.0)
    grant = await asyncio.wait_for(other.reserve(CostBounds(0.9, 0.9)), 300)
    assert grant.dollars == pytest.approx(0.9)


async def test_without_a_ceiling_there_is_no_purse(office: Office) -> None:
    run = Run(id=RunId("a"), repo=SHOP, issue=1, asked_by=Login("ann"), delivery="d")
    lease = Lease(office.storage, run, worker="w", fence=1, seconds=20)
    assert await DayBudget.open(lease, Settings(), None) is None


async def test_a_runs_own_ceiling_and_the_days_hold_together(office: Office) -> None:
    day_budget = await office.open_budget("a", 1.0)
    budget = Budget(0.5, shared=day_budget)
    async with budget.reserve(CostBounds(0.1, 9.0)) as grant:
        assert grant.dollars == pytest.approx(0.5)
        await grant.settle(0.3)
    with pytest.raises(BudgetSpent) as caught:
        async with budget.reserve(CostBounds(0.3, 0.3)):
            pass
    assert caught.value.of == "run"
    assert "$0.30" in str(caught.value)
    assert (await day_budget.reserve(CostBounds(0.7, 0.7))).dollars == pytest.approx(0.7)
