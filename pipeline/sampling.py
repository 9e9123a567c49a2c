"""Many independent samples, each a test and then an edit (CodeMonkeys, section 2.2)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from pipeline import learnt
from pipeline.codebase import Codebase
from pipeline.generation.editing import EditingMachine, EditingState
from pipeline.generation.testing import TestingMachine, TestingState
from pipeline.head_start import HeadStart
from pipeline.machine import Phase, drive_on_budget
from pipeline.models.base import Model
from pipeline.nearby import NearbyTests
from pipeline.options import Options
from pipeline.store import Store
from pipeline.together import together
from pipeline.types import Candidate, Context, Issue, NoFix
from sandbox.base import Sandbox


@dataclass(frozen=True)
class Sample:
    """What one testing machine and the editing machine after it came to."""

    test: TestingState
    edit: EditingState | None
    candidate: Candidate | None


class Sampler:
    """Runs the testing and editing machines. Each is saved under `testing/i` and `editing/i`."""

    def __init__(
        self, model: Model, sandbox: Sandbox, codebase: Codebase, store: Store, options: Options
    ) -> None:
        self._model = model
        self._editor = HeadStart(model)
        self._sandbox = sandbox
        self._codebase = codebase
        self._store = store
        self._options = options
        seconds = options.nearby_seconds
        nearby = NearbyTests(codebase, sandbox, store, seconds=seconds) if seconds else None
        self._own_tests = nearby

    async def sample(self, issue: Issue, context: Context) -> list[Candidate] | NoFix:
        """One candidate for each sample that came to an edit, in sample order; at least one."""
        samples = await together(
            self._sample(issue, context, number) for number in range(self._options.samples)
        )
        candidates = [sample.candidate for sample in samples if sample.candidate]
        return candidates or _nothing(samples)

    async def _sample(self, issue: Issue, context: Context, number: int) -> Sample:
        """One test, then one edit; no sample waits for another."""
        testing = TestingMachine(self._model, self._sandbox, issue, self._options, sample=number)
        test = await drive_on_budget(testing, TestingState, self._store, f"testing/{number}")
        seed = test.best()
        if seed is None:
            return Sample(test, None, None)
        editing = EditingMachine(
            self._editor,
            self._sandbox,
            self._codebase,
            self._options,
            issue=issue,
            context=context,
            seed=seed,
            sample=number,
            own_tests=self._own_tests,
        )
        edit = await drive_on_budget(editing, EditingState, self._store, f"editing/{number}")
        return Sample(test, edit, edit.candidate(number))


def _nothing(samples: Sequence[Sample]) -> NoFix:
    """Why there is not one candidate."""
    states = [state for sample in samples for state in (sample.test, sample.edit) if state]
    if any(state.phase is Phase.OUT_OF_BUDGET for state in states):
        return NoFix(reason="out of budget")
    if all(sample.edit is None for sample in samples):
        return NoFix(reason="no reproduction", learnt=(learnt.NO_SCRIPT,))
    return NoFix(reason="no edit", learnt=(learnt.NO_EDIT,))
