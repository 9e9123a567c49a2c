"""What every step of a run works with."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from pipeline.codebase.commit import Codebase
from pipeline.models.base import Model
from pipeline.models.wrappers.timed import UNLIMITED, RunClock
from pipeline.options import Options
from pipeline.store import Store
from sandbox.base import Sandbox

Progress = Callable[[str, str], None]
"""Receives a stage and a detail, as text for people."""


@dataclass(frozen=True)
class Resources:
    """One `store` is for one issue at one commit; `sandbox` holds `codebase`."""

    model: Model
    """The solver: it writes tests and edits."""
    sandbox: Sandbox
    codebase: Codebase
    store: Store
    options: Options
    clock: RunClock = UNLIMITED
    progress: Progress | None = None
    solvers: Mapping[str, Model] = field(default_factory=dict[str, Model])
    """Further solvers, by the names that generators give them."""

    async def report(self, stage: str, detail: str) -> None:
        """Save how long the run has taken, and tell `progress` what comes next."""
        await self.clock.save(self.store)
        if self.progress:
            self.progress(stage, detail)


async def start_clock(resources: Resources) -> Resources:
    """`resources` with the clock of the run in their store; replies to batches may take days."""
    options = resources.options
    clock = await RunClock.open(resources.store, 0 if options.batch else options.minutes)
    return dataclasses.replace(resources, clock=clock)
