"""`together` with at most so many at a time."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Iterable
from typing import Any, TypeVar

from pipeline.together import together

T = TypeVar("T")


async def bounded(limit: int, jobs: Iterable[Coroutine[Any, Any, T]]) -> list[T]:
    """The results in the order of `jobs`, never more than `limit` running. Raises as `together`."""
    slots = asyncio.Semaphore(limit)
    waiting = list(jobs)

    async def one(job: Coroutine[Any, Any, T]) -> T:
        async with slots:
            return await job

    try:
        return await together(one(job) for job in waiting)
    finally:
        for job in waiting:
            job.close()  # those that never got a slot; closing a finished one does nothing
