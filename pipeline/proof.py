"""The last arrow: the chosen edit's script becomes a test of the repository, seen red and green."""

from __future__ import annotations

from pipeline import learnt
from pipeline.codebase import Codebase
from pipeline.conventions import Conventions, detect
from pipeline.generation.reproduction import ReproductionMachine, ReproductionState
from pipeline.machine import drive
from pipeline.models.base import Model
from pipeline.options import Options
from pipeline.selection.choosing import Choice
from pipeline.selection.voting import confidence, reporting
from pipeline.store import Store
from pipeline.types import (
    Context,
    Evidence,
    Issue,
    NoFix,
    Selection,
    SourceFile,
    TestScript,
    VoteTable,
)
from sandbox.base import Sandbox


class Prover:
    """Has the reproduction test written and seen red and green."""

    def __init__(
        self, model: Model, sandbox: Sandbox, codebase: Codebase, store: Store, options: Options
    ) -> None:
        self._model = model
        self._sandbox = sandbox
        self._codebase = codebase
        self._store = store
        self._options = options

    async def prove(
        self, issue: Issue, context: Context, table: VoteTable, choice: Choice
    ) -> Selection | NoFix:
        """The selection with its evidence. Raises BudgetSpent, and what model and sandbox raise."""
        candidate = table.candidates[choice.candidate]
        conventions = await detect(self._codebase)
        machine = ReproductionMachine(
            self._model,
            self._sandbox,
            self._codebase,
            self._options,
            issue=issue,
            conventions=conventions,
            patch=candidate.patch,
            script=_script(table, choice.candidate),
            example=await self._example(conventions),
        )
        key = f"reproduction/{choice.candidate}"
        state = await drive(machine, ReproductionState, self._store, key)
        if not state.confirmed or state.reproduction is None:
            problem = state.problem or learnt.NO_TEST_FILE
            return NoFix(reason="reproduction not confirmed", learnt=(problem,))
        draft = state.drafts[-1]
        evidence = Evidence(
            votes=table,
            finalists=choice.finalists,
            selection_rounds=choice.rounds,
            reproduction=state.reproduction,
            suite=choice.suite,
            title=draft.title,
            cause=draft.cause,
            change=draft.change,
            context=context,
        )
        return Selection(
            candidate=candidate,
            decided_by=choice.decided_by,
            confidence=confidence(table, choice.candidate),
            evidence=evidence,
        )

    async def _example(self, conventions: Conventions) -> SourceFile | None:
        path = conventions.example
        text = await self._codebase.text(path) if path else None
        return SourceFile(path=path, text=text, tokens=0) if path and text else None


def _script(table: VoteTable, candidate: int) -> TestScript:
    """The candidate's own script if it reports the issue and passes with the edit; else another."""
    own = table.candidates[candidate].test
    fit = [table.tests[t] for t in reporting(table) if table.runs[candidate][t].passed]
    return own if own in fit and own else fit[0]
