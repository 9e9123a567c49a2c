"""Waits in the event loop for blocking work in threads; cancelling it leaves nothing running."""

import asyncio
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any, Protocol, TypeVar

from sandbox.errors import SandboxUnavailable
from sandbox.program import Execution

T = TypeVar("T")
Result = TypeVar("Result", covariant=True)


class Stoppable(Protocol[Result]):
    """Blocking work that another thread can end early; `run` then raises `Stopped`."""

    def run(self) -> Result: ...

    def stop(self) -> None:
        """Ask for the end; does not block."""
        ...


class SharedExecution:
    """One execution that several callers wait for; cancelled when the last of them is."""

    def __init__(self, task: asyncio.Task[Execution]) -> None:
        self._task = task
        self._waiting = 0

    def is_unusable(self) -> bool:
        """Whether the next caller must start another: it failed, or is being cancelled."""
        if not self._task.done():
            return self._task.cancelling() > 0
        return self._task.cancelled() or self._task.exception() is not None

    async def wait_for_result(self) -> Execution:
        self._waiting += 1
        try:
            return await asyncio.shield(self._task)
        finally:
            self._waiting -= 1
            if not self._waiting and not self._task.done():
                self._task.cancel()
                await wait_until_done(self._task)


async def run_stoppable(pool: ThreadPoolExecutor, work: Stoppable[T]) -> T:
    """Run `work` in a thread; on cancellation stop it and return only when it has cleaned up."""
    return await wait_or_stop(work, pool.submit(work.run))


async def wait_or_stop(work: Stoppable[T], thread: Future[T]) -> T:
    """The result of `work`, which runs or will run in `thread`; cancelled as `run_stoppable`."""
    running = asyncio.wrap_future(thread)
    try:
        return await asyncio.shield(running)
    except asyncio.CancelledError:
        work.stop()
        thread.cancel()
        await wait_until_done(running)
        raise
    except Stopped as error:
        raise SandboxUnavailable("The execution was stopped.") from error


async def wait_until_done(future: asyncio.Future[Any]) -> None:
    """Wait for `future`, also when cancelled meanwhile; its result does not matter."""
    while not future.done():
        try:
            await asyncio.wait([future])
        except asyncio.CancelledError:
            continue
    if not future.cancelled():
        future.exception()


class Stopped(Exception):
    """The caller no longer waits; the container is gone too."""
