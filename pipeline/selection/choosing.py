"""One edit out of the finalists: the selection machine, then the repository's own tests."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Literal

from pipeline import learnt
from pipeline.codebase import Codebase
from pipeline.conventions import detect
from pipeline.machine import Phase, drive_on_budget
from pipeline.models.base import Model
from pipeline.options import Options
from pipeline.selection.selecting import SelectingMachine, SelectingState
from pipeline.selection.suite import Suite
from pipeline.store import Store
from pipeline.types import Frozen, Issue, NoFix, SourceFile, SuiteReport, VoteTable
from sandbox.base import Sandbox

_SHOWN_CHARACTERS = 60_000
"""Files of the repository larger than this are left out of the selection's question."""

DecidedBy = Literal["only one", "votes", "model"]


class Choice(Frozen):
    """The edit that was chosen, and how."""

    candidate: int
    """Index into the vote table's candidates."""
    finalists: tuple[int, ...]
    decided_by: DecidedBy
    rounds: int
    suite: SuiteReport | None


class Chooser:
    """Chooses one finalist that breaks none of the repository's tests."""

    def __init__(
        self, model: Model, sandbox: Sandbox, codebase: Codebase, store: Store, options: Options
    ) -> None:
        self._model = model
        self._sandbox = sandbox
        self._codebase = codebase
        self._store = store
        self._options = options

    async def choose(
        self, issue: Issue, table: VoteTable, finalists: tuple[int, ...]
    ) -> Choice | NoFix:
        """The selection machine's choice, or the next in votes if that one breaks tests.

        `finalists` are indices into the table's candidates, best first, at least one.
        """
        first, decided_by, rounds = await self._select(issue, table, finalists)
        suite = await self._suite()
        broken: list[str] = []
        for candidate in (first, *(c for c in finalists if c != first)):
            report = await suite.compare(table.candidates[candidate].patch.diff) if suite else None
            if report is None or not report.broken:
                return Choice(
                    candidate=candidate,
                    finalists=finalists,
                    decided_by=decided_by,
                    rounds=rounds,
                    suite=report,
                )
            broken.append(learnt.broken(report))
            decided_by = "votes"
        return NoFix(reason="edits break tests", learnt=tuple(dict.fromkeys(broken)))

    async def _select(
        self, issue: Issue, table: VoteTable, finalists: Sequence[int]
    ) -> tuple[int, DecidedBy, int]:
        if len(finalists) == 1:
            return finalists[0], "only one", 0
        machine = SelectingMachine(
            self._model,
            self._sandbox,
            self._options,
            issue=issue,
            table=table,
            finalists=finalists,
            files=await self._edited(table, finalists),
        )
        state = await drive_on_budget(machine, SelectingState, self._store, "selecting")
        decided_by = "model" if state.phase is Phase.APPROVED else "votes"
        return finalists[state.chosen], decided_by, len(state.rounds)

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

    async def _suite(self) -> Suite | None:
        command = self._options.test_command or (await detect(self._codebase)).suite_command()
        if command is None:
            return None
        seconds = self._options.suite_seconds
        return Suite(command, sandbox=self._sandbox, store=self._store, seconds=seconds)
