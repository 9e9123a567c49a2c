"""What is put into the queue of jobs: once for each start, and in turn."""

from datetime import timedelta

from redis.asyncio import Redis

from bot.data.request import PullUpdate, RunRequest
from bot.data.run import Login, RepoRef, RunId, now
from bot.queue.jobs import RunQueue
from bot.storage.requests import BURST
from bot.storage.storage import Storage
from sandbox.frozen import replace

REPO = RepoRef(id=1, owner="acme", name="shop", installation=1)


async def list_jobs(storage: Storage, redis: Redis) -> list[tuple[str, float]]:
    found = await redis.zrange(storage.keys.queue, 0, -1, withscores=True)
    return [(job.decode().removeprefix(storage.prefix), at) for job, at in found]


async def test_a_job_that_still_waits_is_not_sent_again(storage: Storage, redis: Redis) -> None:
    queue = RunQueue(storage)
    await queue.send(RunId("a"), 0)
    await redis.zadd(storage.keys.queue, {f"{storage.prefix}a#0": 5})
    await queue.send(RunId("a"), 0)
    await queue.send(RunId("a"), 1)
    jobs = await list_jobs(storage, redis)
    assert [name for name, _ in jobs] == ["a#0", "a#1"]
    assert jobs[0][1] == 5


async def test_the_flood_of_one_repository_waits_and_nothing_else_does(
    storage: Storage, redis: Redis
) -> None:
    queue = RunQueue(storage)
    for number in range(3 * BURST):
        await queue.put(PullUpdate(repo=REPO, target="base", delivery=f"flood-{number}"))
    asked = RunRequest(repo=REPO, issue=1, asked_by=Login("ann"), delivery="asked")
    other = PullUpdate(repo=replace(REPO, id=2), target="base", delivery="other")
    for request in (asked, other):
        assert await queue.put(request)
        assert not await queue.put(request)
    soon = (now() + timedelta(seconds=0.1)).timestamp() * 1000
    due = {
        name.removeprefix("request:") for name, at in await list_jobs(storage, redis) if at < soon
    }
    assert {asked.id, other.id} <= due
    assert BURST <= len(due) < 3 * BURST
    assert await queue.count_requests() == 3 * BURST + 2
