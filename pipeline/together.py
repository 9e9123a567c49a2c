"""`asyncio.gather` that leaves nobody running: if one fails, the rest are cancelled and awaited."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Iterable
from typing import Any, TypeVar

T = TypeVar("T")
U = TypeVar("U")


async def together(jobs: Iterable[Coroutine[Any, Any, T]]) -> list[T]:
    """The results in the order of `jobs`.

    Raises the first failure itself, not an `ExceptionGroup` around it, so that callers can catch
    what a job documents.
    """
    try:
        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(job) for job in jobs]
    except BaseExceptionGroup as failures:
        raise failures.exceptions[0] from failures
    return [task.result() for task in tasks]


async def both(one: Coroutine[Any, Any, T], other: Coroutine[Any, Any, U]) -> tuple[T, U]:
    """As `together`, for two jobs of different kinds."""
    try:
        async with asyncio.TaskGroup() as group:
            first, second = group.create_task(one), group.create_task(other)
    except BaseExceptionGroup as failures:
        raise failures.exceptions[0] from failures
    return first.result(), second.result()
