"""What a worker needs of the code that works on a run."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

from bot.storage.lease import Lease
from bot.types import Mode, Run, Stop


class RunHandler(Protocol):
    """Works on the runs of some modes.

    Every effect is find-or-create: a worker may die at any moment, and another calls again.
    All methods but `is_still_valid` return the run's record with a final status.

    Raises, from every method:
        TryLater: something that the run needs does not answer; the worker calls again later.
        LeaseLost: another worker has the run.
    """

    async def handle(self, run: Run, lease: Lease) -> Run:
        """Work on the run to its end, and report the end to the maintainer."""
        ...

    async def fail(self, run: Run, lease: Lease) -> Run:
        """Report `run.failure` to the maintainer."""
        ...

    async def stop(self, run: Run, lease: Lease) -> Run:
        """Report `run.stop` to the person who asked for it."""
        ...

    async def is_still_valid(self, run: Run, stop: Stop) -> bool:
        """Whether GitHub still shows what `stop` hints at. Not asked about a stop by command."""
        ...


RunHandlers = Mapping[Mode, RunHandler]
