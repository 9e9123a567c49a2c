"""The final decision among the finalists, with the files they change."""

import dataclasses
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import chain

from pipeline.codebase.commit import Codebase
from pipeline.codebase.unified_diff import FileDiff, parse_diff
from pipeline.data.code_places import SourceFile
from pipeline.data.options import SelectionMethod
from pipeline.data.suite_reports import FurtherScript, Reason
from pipeline.data.types import ChecklistPoint, DecidedBy, Issue
from pipeline.edits.suspicious import is_irrelevant
from pipeline.models.base import Model
from pipeline.resources import Workspace, drive_on_budget
from pipeline.selection.discriminate import (
    ChoosingMachine,
    ChoosingState,
    DiscriminatingMachine,
    DiscriminatingState,
)
from pipeline.selection.finalists import Finalists, describe_finalists
from pipeline.selection.knockout import FurtherScripts, run_folded, settle
from pipeline.selection.methods import behaving_alike, best_candidates, rank_candidates
from pipeline.selection.scoring.standings import Standings
from pipeline.selection.verdict import SavedSuiteReport
from pipeline.state import Phase, State
from pipeline.store import digest
from prompts.text import pluralize
from sandbox.program import Execution

MAX_CHARACTERS, AROUND = 60_000, 150
"""The longest file shown in full; of a longer one, how many lines around each change."""
MAX_BESIDE, AROUND_BESIDE = 12_000, 40
"""The same for tests and files that are not code, which are read only for their changes."""


async def read_edited_files(
    codebase: Codebase, diffs: Sequence[str], *, closely: bool = True
) -> list[SourceFile]:
    """Read every file of `codebase` that one of `diffs` changes, in the order of the diffs.

    Unless `closely`, code is shown like tests and files that are not code.
    """
    changes: dict[str, list[FileDiff]] = {}
    for diff in diffs:
        for file in parse_diff(diff):
            if file.old is not None:
                changes.setdefault(file.old, []).append(file)
    shown: list[SourceFile] = []
    for path, files in changes.items():
        text = await codebase.read_text(path) if path in codebase.files else None
        if text is None:
            continue
        beside = not closely or all(map(is_irrelevant, files))
        parts = len(text) > (MAX_BESIDE if beside else MAX_CHARACTERS)
        around = AROUND_BESIDE if beside else AROUND
        shown.append(
            SourceFile(
                path=path,
                text=_cut_parts(text, files, around) if parts else text,
                tokens=0,
                partial=parts,
            )
        )
    return shown


def _cut_parts(text: str, changes: Sequence[FileDiff], around: int) -> str:
    """The lines around the changes, with a note for each gap."""
    gap = "[... lines {} to {} left out ...]\n"
    lines = text.splitlines(keepends=True)
    kept: set[int] = set()
    for file in changes:
        for hunk in file.hunks:
            start = max(hunk.start - 1, 0)
            length = sum(marker != "+" for marker, _ in hunk.lines)
            kept.update(range(max(start - around, 0), min(start + length + around, len(lines))))
    parts: list[str] = []
    at = 0
    for number in sorted(kept):
        if number > at:
            parts.append(gap.format(at + 1, number))
        parts.append(lines[number])
        at = number + 1
    if at < len(lines):
        parts.append(gap.format(at + 1, len(lines)))
    return "".join(parts)


_ASKING_METHODS = ("evidence", "machine", "model", "top3")
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
    """The chosen candidate; another takes its place if it breaks tests."""
    by: DecidedBy
    rounds: int = 0
    """How many further tests were written before the choice."""
    further: tuple[FurtherScript, ...] = ()
    notes: tuple[str, ...] = ()
    """Why no model decided, if the method asks one."""
    reasons: tuple[Reason, ...] = ()
    freed: tuple[int, ...] = ()
    """Further candidates that were compared, as they did not behave like those that stood for
    them."""


class Decider:
    """Decides between finalists by `options.selection`. Saves every conversation."""

    def __init__(self, workspace: Workspace, model: Model | None) -> None:
        """Without a `model`, it takes the first finalist."""
        self._model = model
        self._workspace = workspace
        self._store = workspace.store
        self._options = workspace.options

    async def decide(
        self,
        issue: Issue,
        standings: Standings,
        pool: Sequence[int],
        *,
        files: Sequence[SourceFile] = (),
        reports: Mapping[str, SavedSuiteReport] | None = None,
        checklist: Sequence[ChecklistPoint] = (),
    ) -> Decision:
        """Choose first among the candidates of `pool`, and record who chose.

        `files` are shown to a model that chooses by reading, beside the files that the edits
        change; `reports` are the results of the repository's own tests, by diff.
        """
        method, model = self._options.selection, self._model
        if len(standings.table.distinct(range(len(standings.entries)))) == 1:
            return Decision(pool[0], "only one")
        if method in _ASKING_METHODS and len(pool) == 1:
            # No further test would distinguish edits of the same code.
            alike = standings.table.distinct(behaving_alike(standings, pool[0]))
            by = decider_without_model(standings, method) if len(alike) > 1 else "only one"
            return Decision(pool[0], by)
        if model is None or method not in _ASKING_METHODS:
            return Decision(pool[0], decider_without_model(standings, method))
        ranked = rank_candidates(method, standings)

        async def describe(indices: Sequence[int]) -> Finalists:
            diffs = [standings.table.candidates[c].patch.diff for c in indices]
            edited = await read_edited_files(self._workspace.codebase, diffs)
            found = describe_finalists(standings, indices, ranked, reports or {}, edited)
            return dataclasses.replace(found, checklist=checklist if method == "evidence" else ())

        if method == "evidence":
            return await self._settle_pairs(model, issue, standings, pool, describe)
        finalists = await describe(pool)
        given = {file.path for file in files}
        shown = [*files, *(file for file in finalists.files if file.path not in given)]
        if method == "machine":
            return await self._discriminate(model, issue, standings, finalists)
        return await self._choose_by_reading(
            model, issue, dataclasses.replace(finalists, files=shown)
        )

    async def _discriminate(
        self, model: Model, issue: Issue, standings: Standings, finalists: Finalists
    ) -> Decision:
        """As the paper does: one conversation about all finalists."""
        state = await self._converse(model, issue, finalists, ours=False)
        approved = state.phase is Phase.APPROVED
        scripts = FurtherScripts()
        scripts.add(state.rounds, finalists.indices)
        return Decision(
            finalists.indices[state.chosen],
            "model" if approved else decider_without_model(standings, self._options.selection),
            rounds=len(state.rounds),
            further=scripts.list(),
            notes=_reason_without_decision(state),
            reasons=(Reason(text=state.why),) if state.why else (),
        )

    async def _settle_pairs(
        self,
        model: Model,
        issue: Issue,
        standings: Standings,
        pool: Sequence[int],
        describe: Callable[[Sequence[int]], Awaitable[Finalists]],
    ) -> Decision:
        """Pair by pair; the scripts decide where the model does not. An edit for which a loser
        stood, and which passes what that fails, meets the winner."""

        async def run(script: str, candidate: int) -> Execution:
            diff = standings.table.candidates[candidate].patch.diff
            return await self._workspace.run_script(script, diff)

        ask = partial(self._converse, model, issue, ours=True)
        settled = await settle(await describe(pool), ask, run)
        folded = {c: _list_folded(standings, c, pool) for c in pool if c != settled.chosen}
        settled, freed = await run_folded(settled, folded, run)
        if freed:
            met = await describe([settled.chosen, *freed])
            settled = settled.join(await settle(met, ask, run))
        by = "model" if settled.asked else decider_without_model(standings, self._options.selection)
        notes = dict.fromkeys(chain.from_iterable(map(_reason_without_decision, settled.states)))
        return Decision(
            settled.chosen, by, settled.rounds, settled.further, tuple(notes), settled.reasons,
            tuple(freed),
        )  # fmt: skip

    async def _converse(
        self, model: Model, issue: Issue, finalists: Finalists, *, ours: bool
    ) -> DiscriminatingState:
        machine = DiscriminatingMachine(
            self._workspace, model, issue=issue, finalists=finalists, ours=ours
        )
        key = f"selecting/{_digest(finalists)}"
        return await drive_on_budget(machine, DiscriminatingState, self._store, key)

    async def _choose_by_reading(
        self, model: Model, issue: Issue, finalists: Finalists
    ) -> Decision:
        machine = ChoosingMachine(model, self._options, issue=issue, finalists=finalists)
        key = f"choosing/{_digest(finalists)}"
        state = await drive_on_budget(machine, ChoosingState, self._store, key)
        by: DecidedBy = "model" if state.phase is Phase.APPROVED else "votes"
        return Decision(finalists.indices[state.chosen], by, notes=_reason_without_decision(state))


def _list_folded(standings: Standings, finalist: int, pool: Sequence[int]) -> list[int]:
    """The edits that behave like `finalist` without being its code, or that of others in `pool`;
    one for each code."""
    entries = standings.entries
    known = {entries[c].same_as for c in pool}
    codes = {
        entries[c].same_as: c
        for c in reversed(behaving_alike(standings, finalist))
        if entries[c].same_as not in known
    }
    return sorted(codes.values())


def _reason_without_decision(state: State) -> tuple[str, ...]:
    match state.phase:
        case Phase.OUT_OF_ATTEMPTS:
            asked = pluralize(len(state.attempts), "time")
            why = f"A model was asked {asked} which edit to take, and named no existing one."
        case Phase.OUT_OF_CONTEXT:
            why = "The edits are too long for a model to compare."
        case Phase.REFUSED:
            why = "The model declined to choose between the edits."
        case Phase.OUT_OF_BUDGET:
            why = f"No model chose between the edits: {state.ceiling}"
        case _:
            return ()
    return (why,)


def decider_without_model(standings: Standings, method: SelectionMethod) -> DecidedBy:
    """The name of the rule that decides when no model does."""
    tied = best_candidates(method, standings)
    if any(standings.entries[c].reward is not None for c in tied):
        return "reward model"
    return _DECIDED_WITHOUT_MODEL.get(method, "votes")


def _digest(finalists: Finalists) -> str:
    """A digest of the finalists: different finalists are a different conversation."""
    return digest(*(finalists.table.candidates[c].patch.diff for c in finalists.indices))
