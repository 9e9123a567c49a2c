"""Chooses between the finalists by scripts that tell them apart (CodeMonkeys, section 2.3)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from pydantic import Field

from pipeline.concurrency import gather_all
from pipeline.machine import Machine
from pipeline.models.base import Model
from pipeline.options import Options
from pipeline.replies import Malformed, Tag, only_tag
from pipeline.state import ReplyKind, State
from pipeline.types import Frozen, Issue, SourceFile, VoteTable
from prompts import render
from sandbox.base import Execution, Sandbox
from sandbox.program import python_script


class Round(Frozen):
    """One script of the selection machine on everything."""

    script: str
    base: Execution
    runs: tuple[Execution, ...]
    """One for each finalist, in their order."""


class DiscriminatingState(State):
    script: str = ""
    """The newest script."""
    rounds: list[Round] = Field(default_factory=list[Round])
    chosen: int = 0
    """Index of a finalist. They come best voted first, so saying nothing means the first."""


@dataclass(frozen=True)
class Finalists:
    """The candidates that one machine chooses between."""

    table: VoteTable
    indices: Sequence[int]
    """Candidates of `table`, best first."""
    files: Sequence[SourceFile]
    """The files that these candidates change, as they are without any edit."""


class DiscriminatingMachine(Machine[DiscriminatingState]):
    """Replies: `<script>`, then `<script>` or `<choice>` with a candidate's number, from 1."""

    def __init__(
        self,
        model: Model,
        sandbox: Sandbox,
        options: Options,
        *,
        issue: Issue,
        finalists: Finalists,
        show_votes: bool = True,
    ) -> None:
        """`show_votes` adds the vote table to the first question, which the paper does not do."""
        super().__init__(model, call="selecting", attempts=options.selection_attempts)
        self._sandbox = sandbox
        self._seconds = options.execution_seconds
        self._issue = issue
        self._table = finalists.table
        self._finalists = finalists.indices
        self._files = finalists.files
        self._show_votes = show_votes

    @property
    def system(self) -> str:
        return render("selecting/system", seconds=f"{self._seconds:g}")

    def start(self) -> DiscriminatingState:
        table = self._table
        candidates = [
            {
                "diff": table.candidates[c].patch.diff,
                "cells": [_cell_text(run) for run in table.runs[c]],
            }
            for c in self._finalists
        ]
        test = table.candidates[self._finalists[0]].test or next(iter(table.tests), None)
        show_votes = self._show_votes and bool(table.tests)
        pending = render(
            "selecting/write",
            issue=self._issue,
            files=self._files,
            candidates=candidates,
            base=[_cell_text(run) for run in table.base] if show_votes else [],
            script=test.text if test else "",
        )
        return DiscriminatingState(pending=pending)

    async def read(self, state: DiscriminatingState, reply: str) -> ReplyKind | Malformed:
        allowed = ("script", "choice") if state.rounds else ("script",)
        match only_tag(reply, *allowed):
            case Malformed() as malformed:
                return malformed
            case Tag("choice", body):
                return self._parse_choice(state, body)
            case tag:
                if not tag.body.strip():
                    return Malformed("The <script> block is empty. Send the whole script.")
                state.script = tag.body + "\n"
                return ReplyKind.REVISED

    def _parse_choice(self, state: DiscriminatingState, body: str) -> ReplyKind | Malformed:
        number = parse_choice(body, len(self._finalists))
        if isinstance(number, Malformed):
            return number
        state.chosen = number
        return ReplyKind.APPROVED

    async def execute(self, state: DiscriminatingState) -> str:
        edits = [(self._table.candidates[c].patch.diff,) for c in self._finalists]
        base, *runs = await gather_all(
            self._sandbox.run(python_script(state.script, diffs=diffs, seconds=self._seconds))
            for diffs in ((), *edits)
        )
        state.rounds.append(Round(script=state.script, base=base, runs=tuple(runs)))
        return render("selecting/review", base=base, runs=runs)


def parse_choice(body: str, count: int) -> int | Malformed:
    """The index that a `<choice>` with a number from 1 to `count` means."""
    number = body.strip().lower().removeprefix("candidate").strip(" #.")
    if number not in map(str, range(1, count + 1)):
        return Malformed(
            f"There is no candidate {number[:40]!r}: answer with a number from 1 to {count} "
            "inside <choice>."
        )
    return int(number) - 1


def _cell_text(run: Execution) -> str:
    return str(run.exit_code) if run.exit_code is not None else run.ending.value
