"""Drives a machine whose work so far still counts when the budget is spent."""

from __future__ import annotations

from pipeline import reasons
from pipeline.errors import BudgetSpent
from pipeline.machine import Machine, drive
from pipeline.state import Phase, S
from pipeline.store import Store
from pipeline.types import replace


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
