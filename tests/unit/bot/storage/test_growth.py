"""What Redis is asked as the queue grows, by count: times depend on the machine."""

from __future__ import annotations

import pytest
from redis.asyncio import Redis

from bot.data.run import Lane, Login, Mode, RepoRef, RunId
from bot.queue.worker import Slots
from bot.storage.active_runs import BATCH
from bot.storage.keys import Keys
from bot.storage.lease import Lease
from bot.storage.runs import Runs
from bot.storage.storage import Storage
from pipeline.concurrency import gather_all
from sandbox.frozen import replace
from tests.support.redis_traffic import count_traffic

MANY = 2 * BATCH


async def fill_queue(runs: Runs, count: int) -> list[RunId]:
    """Runs of so many repositories, that nobody has begun."""
    asked = await gather_all(
        runs.create(
            RepoRef(owner=f"owner{n % 7}", name=f"shop{n}", installation=1),
            1,
            asked_by=Login("ann"),
            delivery=f"guid-{n}",
        )
        for n in range(count)
    )
    return [one.run_id for one in asked]


@pytest.mark.slow
async def test_a_look_at_all_runs_takes_one_command_for_many_of_them(
    runs: Runs, storage: Storage, redis: Redis
) -> None:
    await fill_queue(runs, MANY)
    async with count_traffic(redis) as traffic:
        survey = await storage.active_runs.survey()
    assert len(survey.idle) == MANY
    assert traffic.commands == 1 + MANY // BATCH


async def test_runs_of_another_lane_are_read_one_time(
    runs: Runs, storage: Storage, redis: Redis
) -> None:
    await fill_queue(runs, MANY)
    async with count_traffic(redis) as first:
        await storage.active_runs.survey(Lane.PULLS)
    repo = RepoRef(owner="acme", name="shop", installation=1)
    asked = await runs.create(repo, 3, asked_by=Login("ann"), delivery="pull", mode=Mode.FOLLOW_UP)
    async with count_traffic(redis) as again:
        survey = await storage.active_runs.survey(Lane.PULLS)
    assert [run.id for run in survey.idle] == [asked.run_id]
    assert again.commands == 2
    assert again.answered < first.answered / 5


async def test_a_record_that_changed_is_read_as_it_is_now(runs: Runs, storage: Storage) -> None:
    run_id = (await fill_queue(runs, 1))[0]
    assert [run.starts for run in (await storage.active_runs.survey()).idle] == [0]
    lease = await Lease.acquire(storage, run_id, worker="w", seconds=60)
    assert lease is not None
    assert [run.id for run in (await storage.active_runs.survey()).working] == [run_id]
    await lease.release(replace(lease.run, starts=1))
    assert [run.starts for run in (await storage.active_runs.survey()).idle] == [1]


@pytest.mark.parametrize("waiting", [1, MANY])
async def test_a_full_worker_reads_no_queue(
    runs: Runs, storage: Storage, redis: Redis, waiting: int
) -> None:
    await fill_queue(runs, waiting)
    slots = Slots(0, lambda _: pytest.fail("begun"), lambda: None)

    async def acquire(_run_id: RunId) -> None:
        return None

    async with count_traffic(redis) as traffic:
        await slots.fill(Lane.ISSUES, storage, acquire)
    assert traffic.commands == 0


@pytest.mark.parametrize("kept", [0, MANY])
async def test_one_more_run_costs_the_same_beside_any_number(
    runs: Runs, redis: Redis, kept: int, redis_prefix: str
) -> None:
    await fill_queue(runs, kept)
    repo = RepoRef(owner="acme", name="shop", installation=1)
    async with count_traffic(redis) as traffic:
        await runs.create(repo, 1, asked_by=Login("ann"), delivery="another")
    assert traffic.commands <= 14
    assert await redis.scard(Keys(redis_prefix).active) == kept + 1  # pyright: ignore[reportGeneralTypeIssues, reportUnknownVariableType]
