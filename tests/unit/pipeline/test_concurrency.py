"""Several jobs at once: a failure is told, nobody is left running, no cancellation leaks."""

import asyncio

import pytest

from pipeline.concurrency import gather_all, gather_bounded, shield


async def give(value: int, seconds: float = 0) -> int:
    await asyncio.sleep(seconds)
    return value


async def fail(words: str, seconds: float = 0) -> int:
    await asyncio.sleep(seconds)
    raise ValueError(words)


def cancellations() -> int:
    task = asyncio.current_task()
    assert task is not None
    return task.cancelling()


async def test_results_come_in_the_order_of_the_jobs() -> None:
    assert await gather_all([give(1, 0.01), give(2)]) == [1, 2]
    assert await gather_all([]) == []


async def test_the_first_failure_is_raised_itself_and_the_rest_are_ended() -> None:
    ended = asyncio.Event()

    async def long() -> int:
        try:
            return await give(1, 60)
        finally:
            ended.set()

    with pytest.raises(ValueError, match="now"):
        await gather_all([long(), fail("now"), fail("later", 60)])
    assert ended.is_set()


async def test_a_failure_does_not_leave_the_caller_looking_cancelled() -> None:
    with pytest.raises(ValueError, match="one"):
        await gather_all([fail("one"), fail("two"), give(1, 60)])
    assert cancellations() == 0
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0.01):
            await asyncio.sleep(60)


async def test_cancelling_the_caller_ends_every_job_first() -> None:
    ended: list[int] = []

    async def long(n: int) -> None:
        try:
            await asyncio.sleep(60)
        finally:
            await asyncio.sleep(0)
            ended.append(n)

    task = asyncio.create_task(gather_all([long(1), long(2)]))
    await asyncio.sleep(0.01)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert sorted(ended) == [1, 2]


async def test_a_job_that_ends_cancelled_does_not_hang_the_others() -> None:
    async def gives_up() -> int:
        raise asyncio.CancelledError

    with pytest.raises(asyncio.CancelledError):
        await gather_all([gives_up(), give(1, 60)])


async def test_a_time_limit_works_apart_from_a_cancelled_task() -> None:
    async def limited() -> str:
        try:
            async with asyncio.timeout(0):
                await asyncio.sleep(60)
        except TimeoutError:
            return "ran out"
        return "never"

    said: list[str] = []

    async def cleans_up() -> None:
        try:
            await asyncio.sleep(60)
        finally:
            said.append(await shield(limited()))

    task = asyncio.create_task(cleans_up())
    await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert said == ["ran out"]


async def test_bounded_results_come_in_the_order_of_the_jobs() -> None:
    async def job(n: int) -> int:
        await asyncio.sleep(0)
        return n

    assert await gather_bounded(2, (job(n) for n in range(5))) == [0, 1, 2, 3, 4]


async def test_a_failure_stops_what_runs_and_what_waits_for_its_turn() -> None:
    ran: list[int] = []

    async def job(n: int) -> None:
        ran.append(n)
        if n == 1:
            raise ValueError(n)
        await asyncio.Event().wait()

    with pytest.raises(ValueError, match="1"):
        await gather_bounded(2, (job(n) for n in range(5)))
    assert ran[:2] == [0, 1]
    assert 4 not in ran
