"""What every step of a run works with, passed whole; a machine driven on a budget."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from pipeline import reasons
from pipeline.codebase.commit import Codebase
from pipeline.data.options import Options
from pipeline.machine import Machine, drive
from pipeline.models.base import Model
from pipeline.models.wrappers import UNLIMITED, RunClock
from pipeline.run_errors import BudgetSpent
from pipeline.state import Phase, S
from pipeline.store import Store
from sandbox.base import Sandbox
from sandbox.frozen import replace

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


async def drive_on_budget(machine: Machine[S], kind: type[S], store: Store, key: str) -> S:
    """As `drive`, but a spent budget ends the machine in OUT_OF_BUDGET instead of raising.

    Raises:
        ModelError, SandboxError: call again to resume from the last checkpoint.
    """
    try:
        return await drive(machine, kind, store, key)
    except BudgetSpent as spent:
        state = await store.load(key, kind) or machine.start()
        return replace(
            state,
            phase=Phase.OUT_OF_BUDGET,
            ceiling=reasons.budget_sentence(spent),
            reached=spent.of,
        )
