"""Chooses between the finalists by scripts that distinguish them (CodeMonkeys, section 2.3)."""

from __future__ import annotations

import textwrap
from collections import Counter
from collections.abc import Sequence

from pydantic import Field

from pipeline.concurrency import gather_all
from pipeline.machine import Machine
from pipeline.models.base import Message, Model
from pipeline.options import Options
from pipeline.replies import Malformed, Tag, only_tag, some_tags
from pipeline.selection.finalists import Finalists
from pipeline.selection.separation import Separation
from pipeline.state import ReplyKind, State
from pipeline.types import Frozen, Issue, TestScript, VoteTable
from prompts.templates import render
from sandbox.base import Execution, Sandbox
from sandbox.program import python_script, shell_command

_LONGEST_COMMAND = 50_000
_LONGEST_REASON = 400
_COMMAND_OUTPUT_BYTES = 10_000
"""Of each finalist's, half from its end."""


class Round(Frozen):
    """One script's results in the selection machine: on the unedited code and all finalists."""

    script: str
    base: Execution
    runs: tuple[Execution, ...]
    """One execution for each finalist, in their order."""
    fault: str = ""
    """Why the script counts for nothing, as a sentence; empty if it counts or was not weighed."""

    @property
    def separates(self) -> bool:
        """Whether the script passes with some finalists and not with others, and counts."""
        return not self.fault and len({run.passed for run in self.runs}) == 2


class DiscriminatingState(State):
    script: str = ""
    """The newest script."""
    command: str = ""
    """A command to run on every finalist; empty where the script is to be run."""
    rounds: list[Round] = Field(default_factory=list[Round])
    chosen: int = 0
    """Index of a finalist. Finalists come best voted first, so the default is the first."""
    why: str = ""
    """The model's reason for its choice, in a sentence; empty if it gave none. Untrusted."""


class DiscriminatingMachine(Machine[DiscriminatingState]):
    """Replies: `<script>`, then `<script>` or `<choice>` with a candidate's letter.

    Where it weighs scripts, also `<bash>`: a command that is run on each finalist, to look around.
    """

    def __init__(
        self,
        model: Model,
        sandbox: Sandbox,
        options: Options,
        *,
        issue: Issue,
        finalists: Finalists,
        show_votes: bool = True,
        weigh: bool = False,
    ) -> None:
        """`show_votes` adds the vote table to the first question; `weigh` lets only scripts count
        that separate candidates steadily, and decides by these when the model does not. The paper
        does neither."""
        # Table 4 of CodeMonkeys: the selection is greedy.
        super().__init__(
            model, call="selecting", attempts=options.selection_attempts, temperature=0.0
        )
        self._sandbox = sandbox
        self._seconds = options.execution_seconds
        self._issue = issue
        self._table = finalists.table
        self._finalists = finalists
        self._show_votes = show_votes
        self._separation = Separation(sandbox, self._seconds) if weigh else None

    @property
    def system(self) -> str:
        return render(
            "selecting/system",
            seconds=f"{self._seconds:g}",
            commands=self._separation is not None,
        )

    def start(self) -> DiscriminatingState:
        table = self._table
        candidates = [
            {
                "letter": letter,
                "diff": table.candidates[c].patch.diff,
                "suite": suite,
                "cells": [_cell_text(run) for run in table.runs[c]],
            }
            for letter, c, suite in _rows(self._finalists)
        ]
        number, test, separates = _find_script(table, self._finalists.indices)
        show_votes = self._show_votes and bool(table.tests)
        # Another order of the same candidates, and other pairs of them, share this prefix.
        context = render("selecting/context", issue=self._issue, files=self._finalists.files)
        pending = render(
            "selecting/write",
            missing=self._finalists.missing,
            decided=self._finalists.decided,
            candidates=candidates,
            base=[_cell_text(run) for run in table.base] if show_votes else [],
            script=test.text if test else "",
            number=number + 1,
            separates=show_votes and separates,
        )
        first = Message(role="user", text=context)
        return DiscriminatingState(messages=[first], pending=pending)

    async def read(self, state: DiscriminatingState, reply: str) -> ReplyKind | Malformed:
        allowed = ["script"]
        if state.rounds:
            allowed.append("choice")
        if self._separation:
            allowed.append("bash")
        match only_tag(reply, *allowed):
            case Malformed() as malformed:
                return malformed
            case Tag("choice", body):
                state.why = _read_reason(reply)
                return self._parse_choice(state, body)
            case Tag("bash", body):
                if not body.strip() or len(body) > _LONGEST_COMMAND:
                    most = f"{_LONGEST_COMMAND:,} characters"
                    return Malformed(f"A <bash> block holds one command of at most {most}.")
                state.command = body + "\n"
                return ReplyKind.REVISED
            case tag:
                if not tag.body.strip():
                    return Malformed("The <script> block is empty. Send the whole script.")
                state.script, state.command = tag.body + "\n", ""
                return ReplyKind.REVISED

    def _parse_choice(self, state: DiscriminatingState, body: str) -> ReplyKind | Malformed:
        number = self._finalists.parse_choice(body)
        if isinstance(number, Malformed):
            return number
        state.chosen = number
        return ReplyKind.APPROVED

    async def execute(self, state: DiscriminatingState) -> str:
        return await (self._run_command(state) if state.command else self._run_script(state))

    async def _run_command(self, state: DiscriminatingState) -> str:
        """Run the command in a fresh checkout of each finalist; what it changes is lost."""
        runs = await gather_all(
            self._sandbox.run(
                shell_command(
                    state.command,
                    diffs=(self._table.candidates[c].patch.diff,),
                    seconds=self._seconds,
                    output_bytes=_COMMAND_OUTPUT_BYTES,
                )
            )
            for c in self._finalists.indices
        )
        return render(
            "selecting/command", runs=self._name_runs(runs), may_choose=bool(state.rounds)
        )

    async def _run_script(self, state: DiscriminatingState) -> str:
        edits = [self._table.candidates[c].patch.diff for c in self._finalists.indices]
        base, *runs = await gather_all(
            self._sandbox.run(python_script(state.script, diffs=diffs, seconds=self._seconds))
            for diffs in ((), *((edit,) for edit in edits))
        )
        fault = None
        if self._separation:
            fault = await self._separation.find_fault(state.script, edits, base, runs)
        why = fault.sentence if fault else ""
        state.rounds.append(Round(script=state.script, base=base, runs=tuple(runs), fault=why))
        if self._separation:
            state.chosen = _pick_by_counting(state.rounds)
        return render(
            "selecting/review",
            base=base,
            runs=self._name_runs(runs),
            fault=fault,
            commands=self._separation is not None,
        )

    def _name_runs(self, runs: Sequence[Execution]) -> list[dict[str, object]]:
        letters = self._finalists.letters
        return [{"letter": at, "run": run} for at, run in zip(letters, runs, strict=True)]


def _read_reason(reply: str) -> str:
    found = some_tags(reply, "why")
    if isinstance(found, Malformed):
        return ""
    return textwrap.shorten(found.get("why", ""), _LONGEST_REASON, placeholder=" […]")


def _pick_by_counting(rounds: Sequence[Round]) -> int:
    """The finalist that passes most of the scripts that count; of equals, the best voted."""
    passed = Counter[int]()
    for one in rounds:
        if one.separates:
            passed.update(at for at, run in enumerate(one.runs) if run.passed)
    return max(range(len(rounds[0].runs)), key=lambda at: (passed[at], -at))


def _find_script(table: VoteTable, finalists: Sequence[int]) -> tuple[int, TestScript | None, bool]:
    """The script to show, its index first; whether some finalists pass it and others do not.

    Without one that separates them, it is that of the first finalist.
    """
    for at, test in enumerate(table.tests):
        counts = at not in (*table.flaky, *table.self_serving)
        if counts and len({table.runs[c][at].passed for c in finalists}) == 2:
            return at, test, True
    own = table.candidates[finalists[0]].test
    for at, test in enumerate(table.tests):
        if test == own:
            return at, test, False
    return 0, next(iter(table.tests), own), False


def _rows(finalists: Finalists) -> list[tuple[str, int, str]]:
    suite = finalists.suite or [""] * len(finalists.indices)
    return list(zip(finalists.letters, finalists.indices, suite, strict=True))


def _cell_text(run: Execution) -> str:
    return str(run.exit_code) if run.exit_code is not None else run.ending.value
