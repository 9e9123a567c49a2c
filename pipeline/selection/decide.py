"""The last word among the finalists: a model's, where the method asks one, else the order's."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Sequence
from dataclasses import dataclass

from pipeline.codebase.commit import Codebase
from pipeline.codebase.text import count_of
from pipeline.machine import Phase, State, drive_on_budget
from pipeline.models.base import Model
from pipeline.options import Options, SelectionMethod
from pipeline.selection.machines.choose import AskingMachine, AskingState
from pipeline.selection.machines.discriminate import SelectingMachine, SelectingState
from pipeline.selection.methods import preferred
from pipeline.selection.scoring.standings import Contest
from pipeline.store import Store
from pipeline.types import DecidedBy, Issue, SourceFile, VoteTable
from sandbox.base import Sandbox

_SHOWN_CHARACTERS = 60_000
"""Files of the repository larger than this are left out of the question."""
_WITHOUT_MODEL: dict[SelectionMethod, DecidedBy] = {
    "ast_voting": "support",
    "evidence": "evidence",
    "exec": "evidence",
    "orm_exec": "evidence",
    "dev_search": "evidence",
}


@dataclass(frozen=True)
class Decision:
    first: int
    """The candidate that was chosen first."""
    by: DecidedBy
    rounds: int = 0
    """After how many further tests."""
    notes: tuple[str, ...] = ()
    """Why no model decided, where one was asked."""


class Decider:
    """Decides between finalists by `options.selection`. Every conversation is saved."""

    def __init__(
        self,
        model: Model | None,
        sandbox: Sandbox,
        codebase: Codebase,
        store: Store,
        options: Options,
    ) -> None:
        """Without a `model`, the first of the finalists is taken."""
        self._model = model
        self._sandbox = sandbox
        self._codebase = codebase
        self._store = store
        self._options = options

    async def decide(
        self, issue: Issue, known: Contest, pool: Sequence[int], files: Sequence[SourceFile]
    ) -> Decision:
        """The first choice, and who made it."""
        method, model = self._options.selection, self._model
        if len(distinct(known.table, range(len(known.standings)))) == 1:
            return Decision(pool[0], "only one")
        if method in ("evidence", "machine", "model", "top3") and len(pool) == 1:
            return Decision(pool[0], "only one")
        if model is not None and method in ("evidence", "machine"):
            return await self._selected(model, issue, known, pool)
        if model is not None and method in ("model", "top3"):
            return await self._asked(model, issue, known, pool, files)
        return Decision(pool[0], decided_by(known, method))

    async def _selected(
        self, model: Model, issue: Issue, known: Contest, pool: Sequence[int]
    ) -> Decision:
        method = self._options.selection
        machine = SelectingMachine(
            model,
            self._sandbox,
            self._options,
            issue=issue,
            table=known.table,
            finalists=pool,
            files=await self._edited(known.table, pool),
            told=method == "evidence",
        )
        key = f"selecting/{_digest(known.table, pool)}"
        state = await drive_on_budget(machine, SelectingState, self._store, key)
        by: DecidedBy = "model" if state.phase is Phase.APPROVED else decided_by(known, method)
        return Decision(pool[state.chosen], by, len(state.rounds), _undecided(state))

    async def _asked(
        self,
        model: Model,
        issue: Issue,
        known: Contest,
        pool: Sequence[int],
        files: Sequence[SourceFile],
    ) -> Decision:
        diffs = [known.table.candidates[c].patch.diff for c in pool]
        shown = files or await self._edited(known.table, pool)
        machine = AskingMachine(model, self._options, issue=issue, diffs=diffs, files=shown)
        key = f"choosing/{_digest(known.table, pool)}"
        state = await drive_on_budget(machine, AskingState, self._store, key)
        by: DecidedBy = "model" if state.phase is Phase.APPROVED else "votes"
        return Decision(pool[state.chosen], by, notes=_undecided(state))

    async def _edited(self, table: VoteTable, finalists: Sequence[int]) -> list[SourceFile]:
        """The files that the finalists change, as they are before."""
        diffs = "\n".join(table.candidates[c].patch.diff for c in finalists)
        named = dict.fromkeys(re.findall(r"^--- a/(.*?)\t?$", diffs, re.MULTILINE))
        files: list[SourceFile] = []
        for path in named:
            text = await self._codebase.text(path) if path in self._codebase.files else None
            if text is not None and len(text) <= _SHOWN_CHARACTERS:
                files.append(SourceFile(path=path, text=text, tokens=0))
        return files


def _undecided(state: State) -> tuple[str, ...]:
    match state.phase:
        case Phase.OUT_OF_ATTEMPTS:
            asked = count_of(len(state.attempts), "time")
            why = f"A model was asked {asked} which edit to take, and named none that there is."
        case Phase.OUT_OF_CONTEXT:
            why = "The edits are too long for a model to choose between them."
        case Phase.REFUSED:
            why = "The model that should choose between the edits declined to."
        case Phase.OUT_OF_BUDGET:
            why = f"No model chose between the edits: {state.ceiling}"
        case _:
            return ()
    return (why,)


def decided_by(known: Contest, method: SelectionMethod) -> DecidedBy:
    """Who decides where no model does."""
    tied = preferred(method, known)
    if any(known.standings[c].reward is not None for c in tied):
        return "reward model"
    return _WITHOUT_MODEL.get(method, "votes")


def distinct(table: VoteTable, candidates: Sequence[int]) -> tuple[int, ...]:
    """The first of each diff."""
    first: dict[str, int] = {}
    for candidate in candidates:
        first.setdefault(table.candidates[candidate].patch.diff, candidate)
    return tuple(first.values())


def _digest(table: VoteTable, finalists: Sequence[int]) -> str:
    """Other finalists are another conversation."""
    diffs = "\0".join(table.candidates[c].patch.diff for c in finalists)
    return hashlib.sha256(diffs.encode("utf-8", "surrogatepass")).hexdigest()[:32]
