"""The record: what may be asked of it twice, what it survives, what it cleans up."""

from __future__ import annotations

import pytest
from redis.asyncio import Redis

from bot.data.request import StartOutcome
from bot.data.run import Login, RepoRef, RunId, RunStatus
from bot.errors import LeaseLost
from bot.storage.lease import Lease
from bot.storage.runs import Runs
from bot.storage.storage import Storage
from pipeline.concurrency import gather_all
from pipeline.store import encode_record
from sandbox.frozen import replace

REPO = RepoRef(owner="acme", name="shop", installation=1)


async def ask(runs: Runs, delivery: str = "guid") -> str:
    return (await runs.create(REPO, 7, asked_by=Login("ann"), delivery=delivery)).run_id


async def test_of_many_at_once_one_creates_the_run(runs: Runs) -> None:
    asked = await gather_all(
        runs.create(REPO, 7, asked_by=Login("ann"), delivery=f"guid-{n}") for n in range(30)
    )
    outcomes = [one.outcome for one in asked]
    assert outcomes.count(StartOutcome.CREATED) == 1
    assert outcomes.count(StartOutcome.RUNNING) == 29
    assert {one.run_id for one in asked} == set(await runs.list_active())


async def test_only_one_of_many_gets_the_lease(runs: Runs, storage: Storage) -> None:
    run_id = await ask(runs)
    leases = await gather_all(
        Lease.acquire(storage, RunId(run_id), worker=f"w{n}", seconds=120) for n in range(20)
    )
    assert len([lease for lease in leases if lease is not None]) == 1


async def test_each_lease_has_a_higher_fence(runs: Runs, storage: Storage) -> None:
    run_id = await ask(runs)
    fences: list[int] = []
    for _ in range(3):
        lease = await Lease.acquire(storage, RunId(run_id), worker="w", seconds=120)
        assert lease is not None
        fences.append(lease.fence)
        await lease.release(lease.run)
    assert fences == sorted(set(fences))


async def test_a_lease_that_was_given_back_allows_nothing(runs: Runs, storage: Storage) -> None:
    lease = await Lease.acquire(storage, RunId(await ask(runs)), worker="w", seconds=120)
    assert lease is not None
    await lease.release(lease.run)
    with pytest.raises(LeaseLost):
        await lease.require()
    with pytest.raises(LeaseLost):
        await lease.finish(lease.run)


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
            "issue:acme/shop#7",
            "issue:acme/shop#7:latest-run",
            "issue:acme/shop#7:runs",
            "runs:active",
            f"run:{lease.run.id}",
            f"run:{lease.run.id}:lease",
            f"run:{lease.run.id}:fence",
        ]
    )
