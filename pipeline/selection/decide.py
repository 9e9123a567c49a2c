"""The last word among the finalists: a model's, where the method asks one, else the order's."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Sequence
from dataclasses import dataclass

from pipeline.codebase.commit import Codebase
from pipeline.codebase.text import pluralize
from pipeline.models.base import Model
from pipeline.on_budget import drive_on_budget
from pipeline.options import Options, SelectionMethod
from pipeline.selection.machines.choose import ChoosingMachine, ChoosingState
from pipeline.selection.machines.discriminate import (
    DiscriminatingMachine,
    DiscriminatingState,
    Finalists,
)
from pipeline.selection.methods import best_candidates
from pipeline.selection.scoring.standings import Standings
from pipeline.state import Phase, State
from pipeline.store import Store
from pipeline.types import DecidedBy, Issue, SourceFile, VoteTable
from sandbox.base import Sandbox

_MAX_FILE_CHARACTERS = 60_000
"""Files of the repository larger than this are left out of the question."""
_DECIDED_WITHOUT_MODEL: dict[SelectionMethod, DecidedBy] = {
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
        self, issue: Issue, standings: Standings, pool: Sequence[int], files: Sequence[SourceFile]
    ) -> Decision:
        """The first choice, and who made it."""
        method, model = self._options.selection, self._model
        if len(distinct_candidates(standings.table, range(len(standings.entries)))) == 1:
            return Decision(pool[0], "only one")
        if method in ("evidence", "machine", "model", "top3") and len(pool) == 1:
            return Decision(pool[0], "only one")
        if model is not None and method in ("evidence", "machine"):
            return await self._discriminate(model, issue, standings, pool)
        if model is not None and method in ("model", "top3"):
            return await self._choose_by_reading(model, issue, standings, pool, files)
        return Decision(pool[0], decider_without_model(standings, method))

    async def _discriminate(
        self, model: Model, issue: Issue, standings: Standings, pool: Sequence[int]
    ) -> Decision:
        method = self._options.selection
        machine = DiscriminatingMachine(
            model,
            self._sandbox,
            self._options,
            issue=issue,
            finalists=Finalists(
                standings.table, pool, await self._read_edited_files(standings.table, pool)
            ),
            show_votes=method == "evidence",
        )
        key = f"selecting/{_digest(standings.table, pool)}"
        state = await drive_on_budget(machine, DiscriminatingState, self._store, key)
        by: DecidedBy = (
            "model" if state.phase is Phase.APPROVED else decider_without_model(standings, method)
        )
        return Decision(pool[state.chosen], by, len(state.rounds), _reason_without_decision(state))

    async def _choose_by_reading(
        self,
        model: Model,
        issue: Issue,
        standings: Standings,
        pool: Sequence[int],
        files: Sequence[SourceFile],
    ) -> Decision:
        diffs = [standings.table.candidates[c].patch.diff for c in pool]
        shown = files or await self._read_edited_files(standings.table, pool)
        machine = ChoosingMachine(model, self._options, issue=issue, diffs=diffs, files=shown)
        key = f"choosing/{_digest(standings.table, pool)}"
        state = await drive_on_budget(machine, ChoosingState, self._store, key)
        by: DecidedBy = "model" if state.phase is Phase.APPROVED else "votes"
        return Decision(pool[state.chosen], by, notes=_reason_without_decision(state))

    async def _read_edited_files(
        self, table: VoteTable, finalists: Sequence[int]
    ) -> list[SourceFile]:
        """The files that the finalists change, as they are before."""
        diffs = "\n".join(table.candidates[c].patch.diff for c in finalists)
        named = dict.fromkeys(re.findall(r"^--- a/(.*?)\t?$", diffs, re.MULTILINE))
        files: list[SourceFile] = []
        for path in named:
            text = await self._codebase.read_text(path) if path in self._codebase.files else None
            if text is not None and len(text) <= _MAX_FILE_CHARACTERS:
                files.append(SourceFile(path=path, text=text, tokens=0))
        return files


def _reason_without_decision(state: State) -> tuple[str, ...]:
    match state.phase:
        case Phase.OUT_OF_ATTEMPTS:
            asked = pluralize(len(state.attempts), "time")
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


def decider_without_model(standings: Standings, method: SelectionMethod) -> DecidedBy:
    """Who decides where no model does."""
    tied = best_candidates(method, standings)
    if any(standings.entries[c].reward is not None for c in tied):
        return "reward model"
    return _DECIDED_WITHOUT_MODEL.get(method, "votes")


def distinct_candidates(table: VoteTable, candidates: Sequence[int]) -> tuple[int, ...]:
    """The first of each diff."""
    first: dict[str, int] = {}
    for candidate in candidates:
        first.setdefault(table.candidates[candidate].patch.diff, candidate)
    return tuple(first.values())


def _digest(table: VoteTable, finalists: Sequence[int]) -> str:
    """Other finalists are another conversation."""
    diffs = "\0".join(table.candidates[c].patch.diff for c in finalists)
    return hashlib.sha256(diffs.encode("utf-8", "surrogatepass")).hexdigest()[:32]
