"""What wakes a worker, in the form that arq reads."""

from __future__ import annotations

import json

from arq import ArqRedis
from redis.asyncio import Redis

from bot.data.run import Lane, RunId
from bot.queue.nudges import Nudges
from bot.storage.storage import Storage


async def test_a_nudge_is_kept_as_arq_itself_would_keep_it(storage: Storage, redis: Redis) -> None:
    await Nudges(storage).send(RunId("ours"), 2)
    arq = ArqRedis(
        pool_or_conn=redis.connection_pool,  # pyright: ignore[reportArgumentType] - typed as sync
        job_serializer=lambda job: json.dumps(job).encode(),
        default_queue_name=storage.keys.nudges(Lane.ISSUES),
    )
    await arq.enqueue_job("begin", "ours", _job_id="theirs")
    ours, theirs = f"arq:job:{storage.keys.prefix}ours#2", "arq:job:theirs"
    try:
        first, second = [json.loads(await redis.get(key) or b"") for key in (ours, theirs)]
        assert {**first, "et": 0} == {**second, "et": 0}
        assert abs(first["et"] - second["et"]) < 120_000
        assert abs(await redis.pttl(ours) - await redis.pttl(theirs)) < 120_000
        queued = await redis.zrange(storage.keys.nudges(Lane.ISSUES), 0, -1, withscores=True)
        assert [name.decode() for name, _ in queued] == [f"{storage.keys.prefix}ours#2", "theirs"]
        assert abs(queued[0][1] - queued[1][1]) < 120_000
    finally:
        await redis.delete(theirs)


async def test_a_nudge_that_still_waits_is_not_sent_again(storage: Storage, redis: Redis) -> None:
    nudges, queue = Nudges(storage), storage.keys.nudges(Lane.PULLS)
    await nudges.send(RunId("a"), 0, Lane.PULLS)
    await redis.zadd(queue, {f"{storage.keys.prefix}a#0": 5})
    await nudges.send(RunId("a"), 0, Lane.PULLS)
    await nudges.send(RunId("a"), 1, Lane.PULLS)
    queued = await redis.zrange(queue, 0, -1, withscores=True)
    assert [name.decode() for name, _ in queued] == [f"{storage.keys.prefix}a#{n}" for n in (0, 1)]
    assert queued[0][1] == 5
