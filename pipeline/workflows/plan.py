"""A dry run: where the cause seems to be, a reproduction script, and what a fix would cost."""

from __future__ import annotations

from pipeline.generation.testing import NOT_FIXED, TestingMachine, TestingState
from pipeline.machine import drive_on_budget
from pipeline.models.base import Model
from pipeline.options import Options
from pipeline.store import Store
from pipeline.types import Context, Frozen, Issue, TestScript
from pipeline.workflows.estimate import Estimate
from sandbox.base import Execution, Sandbox


class Plan(Frozen):
    """What a fix would begin with. Nothing of it is an edit."""

    files: tuple[str, ...]
    """Paths, most useful first."""
    script: TestScript | None = None
    run: Execution | None = None
    """The script on the code as it is."""
    estimate: Estimate

    @property
    def reproduced(self) -> bool:
        """The script says that the issue is there."""
        return self.run is not None and self.run.exit_code == NOT_FIXED


async def plan(
    issue: Issue,
    context: Context,
    guess: Estimate,
    *,
    model: Model,
    sandbox: Sandbox,
    store: Store,
    options: Options,
) -> Plan:
    """With one testing machine, saved where the first sample of a real run keeps its own."""
    machine = TestingMachine(model, sandbox, issue, options, sample=0)
    state = await drive_on_budget(machine, TestingState, store, "testing/0")
    best = state.best()
    return Plan(
        files=tuple(file.path for file in context.files),
        script=best[0] if best else None,
        run=best[1] if best else None,
        estimate=guess,
    )
