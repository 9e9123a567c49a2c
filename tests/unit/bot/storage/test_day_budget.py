"""Ceilings for a day, kept in a real Redis by all runs that share them."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime, timedelta

import pytest
from redis.asyncio import Redis

from bot.settings import Settings
from bot.storage.day_budget import DayPurse
from bot.storage.keys import Keys
from bot.storage.lease import Lease
from bot.types import RepoRef, Run
from pipeline.budget import Budget, Slip, Wish
from pipeline.concurrency import together
from pipeline.errors import BudgetSpent

SHOP = RepoRef(owner="acme", name="shop", installation=1)
OTHER = RepoRef(owner="acme", name="Other", installation=1)
NOON = datetime(2026, 5, 4, 12, tzinfo=UTC)


class Office:
    """Purses of runs that share one Redis."""

    def __init__(self, redis: Redis, prefix: str) -> None:
        self.redis, self.keys, self.now = redis, Keys(prefix), NOON

    async def purse(
        self,
        run_id: str,
        wanted: float | None = None,
        *,
        repo: RepoRef = SHOP,
        day: float = 0,
        repository: float = 0,
    ) -> DayPurse:
        run = Run(id=run_id, repo=repo, issue=1, asked_by="ann", delivery="d")
        lease = Lease(self.redis, self.keys, run, worker="w", fence=1, seconds=20)
        settings = Settings(budget_day=day, budget_repository_day=repository)
        purse = await DayPurse.open(lease, settings, wanted, lambda: self.now)
        assert purse is not None
        return purse


@pytest.fixture
def office(redis: Redis, redis_prefix: str) -> Office:
    return Office(redis, redis_prefix)


async def spend(purse: DayPurse, dollars: float) -> Slip:
    slip = await purse.reserve(Wish(dollars, dollars))
    await purse.settle(slip, dollars)
    return slip


async def test_runs_of_one_repository_share_its_ceiling(office: Office) -> None:
    first, second = await office.purse("a", 1.0), await office.purse("b", 1.0)
    await spend(first, 0.6)
    with pytest.raises(BudgetSpent) as caught:
        await second.reserve(Wish(0.5, 2.0))
    assert (caught.value.of, caught.value.spent, caught.value.ceiling) == ("repository", 0.6, 1.0)
    assert (await second.reserve(Wish(0.3, 2.0))).granted == pytest.approx(0.4)


async def test_the_operators_ceiling_for_a_repository_holds_where_it_is_lower(
    office: Office,
) -> None:
    purse = await office.purse("a", 5.0, repository=2.0)
    with pytest.raises(BudgetSpent) as caught:
        await purse.reserve(Wish(3, 3))
    assert (caught.value.of, caught.value.ceiling) == ("repository", 2.0)


async def test_all_repositories_share_the_operators_ceiling_for_the_day(office: Office) -> None:
    await spend(await office.purse("a", day=1.0), 0.9)
    with pytest.raises(BudgetSpent) as caught:
        await (await office.purse("b", repo=OTHER, day=1.0)).reserve(Wish(0.2, 0.2))
    assert caught.value.of == "installation"
    await spend(await office.purse("c", 0.95, repo=OTHER), 0.9)


async def test_a_new_day_begins_anew(office: Office) -> None:
    purse = await office.purse("a", 1.0)
    late = await purse.reserve(Wish(1.0, 1.0))
    office.now += timedelta(days=1)
    await purse.settle(late, 1.0)  # counts for the day on which it began
    await spend(purse, 1.0)
    with pytest.raises(BudgetSpent):
        await purse.reserve(Wish(0.1, 0.1))


async def test_calls_side_by_side_do_not_pass_the_ceiling(office: Office) -> None:
    purses = [await office.purse(str(n), 1.0) for n in range(4)]
    most = 0.0
    held: list[float] = []

    async def call(purse: DayPurse) -> None:
        nonlocal most
        slip = await purse.reserve(Wish(0.4, 0.4))
        held.append(slip.granted)
        most = max(most, sum(held))
        await asyncio.sleep(0)
        held.remove(slip.granted)
        await purse.settle(slip, 0.1)

    await together(call(purse) for purse in purses)
    assert most <= 0.8
    with pytest.raises(BudgetSpent) as caught:
        await purses[0].reserve(Wish(0.7, 0.7))
    assert caught.value.spent == pytest.approx(0.4)


async def test_settling_twice_counts_once(office: Office) -> None:
    purse = await office.purse("a", 1.0)
    slip = await spend(purse, 0.4)
    await purse.settle(slip, 0.4)
    assert (await purse.reserve(Wish(0.6, 0.6))).granted == pytest.approx(0.6)


async def test_what_a_dead_worker_had_set_aside_is_free_when_its_run_goes_on(
    office: Office,
) -> None:
    await (await office.purse("a", 1.0)).reserve(Wish(0.9, 0.9))
    again = await office.purse("a", 1.0)
    assert (await again.reserve(Wish(0.9, 0.9))).granted == pytest.approx(0.9)


async def test_what_a_run_that_never_goes_on_had_set_aside_is_free_after_its_time(
    office: Office,
) -> None:
    await (await office.purse("a", 1.0)).reserve(Wish(0.9, 0.9, seconds=0))
    other = await office.purse("b", 1.0)
    slip = await asyncio.wait_for(other.reserve(Wish(0.9, 0.9)), 60)
    assert slip.granted == pytest.approx(0.9)


async def test_without_a_ceiling_there_is_no_purse(office: Office) -> None:
    run = Run(id="a", repo=SHOP, issue=1, asked_by="ann", delivery="d")
    lease = Lease(office.redis, office.keys, run, worker="w", fence=1, seconds=20)
    assert await DayPurse.open(lease, Settings(), None) is None


async def test_a_runs_own_ceiling_and_the_days_hold_together(office: Office) -> None:
    purse = await office.purse("a", 1.0)
    budget = Budget(0.5, purse=purse)
    async with budget.reserved(Wish(0.1, 9.0)) as slip:
        assert slip.granted == pytest.approx(0.5)
        await slip.settle(0.3)
    with pytest.raises(BudgetSpent) as caught:
        async with budget.reserved(Wish(0.3, 0.3)):
            pass
    assert (caught.value.of, caught.value.spent) == ("run", 0.3)
    assert (await purse.reserve(Wish(0.7, 0.7))).granted == pytest.approx(0.7)
