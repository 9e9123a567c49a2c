"""Jobs that run at the same time, all cancelled when one fails."""

import asyncio
from collections.abc import AsyncGenerator, Coroutine, Iterable
from contextlib import asynccontextmanager, suppress
from typing import Any, TypeVar

T = TypeVar("T")
U = TypeVar("U")


async def gather_bounded(limit: int, jobs: Iterable[Coroutine[Any, Any, T]]) -> list[T]:
    """`gather_all` with at most `limit` jobs running at a time."""
    slots = asyncio.Semaphore(limit)
    waiting = list(jobs)

    async def one(job: Coroutine[Any, Any, T]) -> T:
        async with slots:
            return await job

    try:
        return await gather_all(one(job) for job in waiting)
    finally:
        for job in waiting:
            job.close()  # those that never got a slot; closing a finished one does nothing


async def gather_all(jobs: Iterable[Coroutine[Any, Any, T]]) -> list[T]:
    """The results in the order of `jobs`.

    Raises the first failure itself, so that callers can catch what a job documents. Not built on
    `TaskGroup`: that cancels its own caller and, up to Python 3.12, leaves it looking cancelled
    (`RevisionTask.cancelling()`), which makes a later `asyncio.timeout` of Python 3.11.2 misbehave.
    """
    tasks = [asyncio.ensure_future(job) for job in jobs]
    failed: BaseException | None = None
    cancelled: asyncio.CancelledError | None = None
    pending = set(tasks)
    while pending:
        try:
            done, pending = await asyncio.wait(pending, return_when=asyncio.FIRST_COMPLETED)
        except asyncio.CancelledError as error:  # ours: pass it on when all have ended
            cancelled = error
            _cancel(pending)
            continue
        failures = [_failure(task) for task in tasks if task in done]  # each has to be looked at
        failed = failed or next(filter(None, failures), None)
        if failed is not None:
            _cancel(pending)
    if cancelled is not None:
        raise cancelled
    if failed is not None:
        raise failed
    return [task.result() for task in tasks]


@asynccontextmanager
async def run_beside(
    job: Coroutine[Any, Any, None], *expected: type[Exception]
) -> AsyncGenerator[None]:
    """Run `job` beside the block, whose end cancels it. It only works ahead: failures that are
    `expected` do not matter."""
    task = asyncio.ensure_future(job)
    try:
        yield
    finally:
        task.cancel()
        with suppress(asyncio.CancelledError, *expected):
            await task


async def gather_two(one: Coroutine[Any, Any, T], other: Coroutine[Any, Any, U]) -> tuple[T, U]:
    """As `gather_all`, for two jobs of different kinds."""
    jobs: list[Coroutine[Any, Any, Any]] = [one, other]
    first, second = await gather_all(jobs)
    return first, second


async def race(job: Coroutine[Any, Any, T], rival: Coroutine[Any, Any, U]) -> T | U:
    """The result of whichever ends first; the other is cancelled and awaited.

    When both end, `job` counts. Raises what the one that counts raised.
    """
    tasks: list[asyncio.Task[Any]] = [asyncio.create_task(job), asyncio.create_task(rival)]
    pending = set(tasks)
    cancelled: asyncio.CancelledError | None = None
    while pending:
        try:
            _, pending = await asyncio.wait(pending, return_when=asyncio.FIRST_COMPLETED)
        except asyncio.CancelledError as error:  # ours: pass it on when both have ended
            cancelled = error
        _cancel(pending)
    failures = [_failure(task) for task in tasks]  # each has to be looked at
    if cancelled is not None:
        raise cancelled
    counts = 1 if tasks[0].cancelled() else 0
    if (failed := failures[counts]) is not None:
        raise failed
    return tasks[counts].result()


async def shield(job: Coroutine[Any, Any, T]) -> T:
    """The result of `job`, run in a task of its own: for the last duties of a cancelled task.

    In the cancelled task itself, a time limit that expires within would look like a second
    cancellation up to Python 3.11.2 (https://github.com/python/cpython/issues/102780).
    """
    task = asyncio.ensure_future(job)
    await asyncio.wait([task])
    return task.result()


def _failure(task: asyncio.Future[T]) -> BaseException | None:
    """The task's failure; a task that somebody else cancelled counts as failed too."""
    return asyncio.CancelledError() if task.cancelled() else task.exception()


def _cancel(tasks: Iterable[asyncio.Task[T]]) -> None:
    for task in tasks:
        task.cancel()
