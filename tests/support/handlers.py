"""A handler of runs that is made of functions, for tests of the queue and the worker."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from bot.data.run import Mode, Run, RunStatus, Stop
from bot.queue.attempt import RunHandlers
from bot.storage.lease import Lease
from sandbox.frozen import replace

HandleRun = Callable[[Run, Lease], Awaitable[Run]]


@dataclass(frozen=True)
class FunctionHandler:
    """Believes every hint to stop, and reports a stop to nobody."""

    on_handle: HandleRun
    on_fail: HandleRun

    async def handle(self, run: Run, lease: Lease) -> Run:
        return await self.on_handle(run, lease)

    async def fail(self, run: Run, lease: Lease) -> Run:
        return await self.on_fail(run, lease)

    async def stop(self, run: Run, lease: Lease) -> Run:
        return replace(run, status=RunStatus.STOPPED)

    async def is_still_valid(self, run: Run, stop: Stop) -> bool:
        return True


def handlers_of(on_handle: HandleRun, on_fail: HandleRun) -> RunHandlers:
    """One handler for the runs of all modes."""
    return dict.fromkeys(Mode, FunctionHandler(on_handle, on_fail))
