"""Records of runs, and what the survey of active runs reads."""

import pytest
from redis.asyncio import Redis

from bot.data.request import StartOutcome
from bot.data.run import Lane, Login, Mode, RepoRef, RunId, RunStatus
from bot.queue.worker import WorkerSlots
from bot.storage.active_runs import BATCH
from bot.storage.keys import Keys
from bot.storage.lease import Lease
from bot.storage.runs import Runs
from bot.storage.storage import Storage
from pipeline.concurrency import gather_all
from pipeline.store import encode_record
from sandbox.frozen import replace
from tests.support.redis_traffic import count_traffic

REPO = RepoRef(id=1, owner="acme", name="shop", installation=1)


async def ask(runs: Runs, delivery: str = "guid") -> str:
    return (await runs.create(REPO, 7, asked_by=Login("ann"), delivery=delivery)).run_id


async def test_only_one_of_many_gets_the_lease(runs: Runs, storage: Storage) -> None:
    run_id = await ask(runs)
    leases = await gather_all(
        Lease.acquire(storage, RunId(run_id), worker=f"w{n}", seconds=120) for n in range(20)
    )
    assert len([lease for lease in leases if lease is not None]) == 1


async def test_a_finished_run_cannot_be_taken_up(runs: Runs, storage: Storage) -> None:
    run_id = await ask(runs)
    lease = await Lease.acquire(storage, RunId(run_id), worker="w", seconds=120)
    assert lease is not None
    await lease.finish(replace(lease.run, status=RunStatus.NO_FIX))
    assert await Lease.acquire(storage, RunId(run_id), worker="w", seconds=120) is None
    assert await Lease.acquire(storage, RunId("unknown"), worker="w", seconds=120) is None


async def test_a_claim_left_by_a_run_that_is_not_active_is_taken_over(
    runs: Runs, storage: Storage, redis: Redis
) -> None:
    await redis.set(storage.keys.issue(REPO, 7), "gone")
    asked = await runs.create(REPO, 7, asked_by=Login("ann"), delivery="guid")
    assert asked.outcome is StartOutcome.CREATED
    assert await redis.get(storage.keys.issue(REPO, 7)) == asked.run_id.encode()


async def test_active_ids_without_a_record_are_forgotten(
    runs: Runs, storage: Storage, redis: Redis
) -> None:
    run_id = await ask(runs)
    await redis.delete(storage.keys.run(RunId(run_id)))
    assert (await storage.active_runs.survey()).idle == []
    assert await runs.list_active() == []
    assert await runs.get(RunId(run_id)) is None


async def test_a_final_record_that_is_still_active_frees_its_issue(
    runs: Runs, storage: Storage, redis: Redis
) -> None:
    run = await runs.get(RunId(await ask(runs)))
    assert run is not None
    final = replace(run, status=RunStatus.FAILED)
    await redis.set(storage.keys.run(run.id), encode_record(final))
    assert (await storage.active_runs.survey()).idle == []
    assert await runs.list_active() == []
    assert await redis.exists(storage.keys.issue(REPO, 7)) == 0


async def test_every_key_is_under_the_prefix(runs: Runs, storage: Storage, redis: Redis) -> None:
    lease = await Lease.acquire(storage, RunId(await ask(runs)), worker="w", seconds=120)
    assert lease is not None
    ours = await redis.keys(f"{storage.keys.prefix}*")
    assert sorted(key.decode().removeprefix(storage.keys.prefix) for key in ours) == sorted(
        [
            "delivery:guid",
            "issue:1#7",
            "issue:1#7:latest-run",
            "issue:1#7:runs",
            "runs:active",
            f"run:{lease.run.id}",
            f"run:{lease.run.id}:lease",
            f"run:{lease.run.id}:fence",
        ]
    )


MANY = 2 * BATCH


async def fill_queue(runs: Runs, count: int) -> list[RunId]:
    """Runs of so many repositories, that nobody has begun."""
    asked = await gather_all(
        runs.create(
            RepoRef(id=1000 + n, owner=f"owner{n % 7}", name=f"shop{n}", installation=1),
            1,
            asked_by=Login("ann"),
            delivery=f"guid-{n}",
        )
        for n in range(count)
    )
    return [one.run_id for one in asked]


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
    repo = RepoRef(id=1, owner="acme", name="shop", installation=1)
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
    slots = WorkerSlots(0, lambda _: pytest.fail("begun"), lambda: None)

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
    repo = RepoRef(id=1, owner="acme", name="shop", installation=1)
    async with count_traffic(redis) as traffic:
        await runs.create(repo, 1, asked_by=Login("ann"), delivery="another")
    assert traffic.commands <= 14
    assert await redis.scard(Keys(redis_prefix).active) == kept + 1  # pyright: ignore[reportGeneralTypeIssues, reportUnknownVariableType]
