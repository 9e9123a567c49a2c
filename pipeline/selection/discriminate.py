"""Scripts that tell finalists apart, or a choice by reading."""

import difflib
import textwrap
from collections import Counter
from collections.abc import Sequence
from typing import NamedTuple

from pydantic import Field

from pipeline.concurrency import gather_all
from pipeline.data.options import Options
from pipeline.data.types import NOT_FIXED, Issue, TestScript, VoteTable
from pipeline.languages.mutants import spoil
from pipeline.machine import Machine
from pipeline.models.base import Message, Model
from pipeline.replies import Malformed, Tag, only_tag, some_tags
from pipeline.resources import Workspace
from pipeline.selection.finalists import Finalists
from pipeline.selection.voting import list_case_tests, list_cases
from pipeline.state import ReplyKind, State
from prompts.templates import render
from sandbox.errors import PatchRejected
from sandbox.frozen import Frozen
from sandbox.program import Execution, repeat_environment, shell_command


class Fault(NamedTuple):
    sentence: str
    unnoticed: str = ""
    """How a line of an edit was spoilt without being noticed, as lines of a diff. Untrusted."""


class ScriptCheck:
    """Checks by further runs whether a script counts."""

    def __init__(self, workspace: Workspace) -> None:
        self._workspace = workspace

    async def find_fault(
        self, script: str, diffs: Sequence[str], base: Execution, runs: Sequence[Execution]
    ) -> Fault | None:
        """Why `script` counts for nothing; None if it counts.

        `runs`: how it ended on each of `diffs`, `base`: without any. It counts if it passes with
        one edit and reports the issue with another, or without any; if it ends the same when it is
        repeated; and if it notices one of the small faults that an edit it passes can be given.
        """
        ends = [run.exit_code for run in runs]
        if any(end not in (0, NOT_FIXED) for end in ends):
            return Fault("It does not come to a verdict on every candidate.")
        if len(set(ends)) < 2:
            return Fault("It ends the same way with every candidate.")
        again = await self._run_again(script, ("", *diffs))
        if again != [base.exit_code, *ends]:
            return Fault("It does not always end the same, so it shows nothing.")
        passed, like = next(
            (diff, run) for diff, run in zip(diffs, runs, strict=True) if run.passed
        )
        unnoticed = ""
        for mutant in await spoil(passed):  # one by one: each may be a build, the first may do
            end = await self._end_of_spoilt(script, mutant, like)
            if end:
                return None
            # What cannot be built, or ends too late, shows nothing.
            unnoticed = unnoticed or (mutant if end is not None else "")
        if not unnoticed and base.exit_code:
            return None
        return Fault(
            "It passes as well where a line of the edit that it passes is spoilt or missing. "
            "Add a case that notices.",
            _show_difference(passed, unnoticed) if unnoticed else "",
        )

    async def _end_of_spoilt(self, script: str, diff: str, like: Execution) -> int | None:
        try:
            return (await self._workspace.run_spoilt(script, diff, like)).exit_code
        except PatchRejected:
            return None

    async def _run_again(self, script: str, diffs: Sequence[str]) -> list[int | None]:
        """Exit codes; None where a diff does not apply or the script was killed."""

        async def run(diff: str) -> int | None:
            try:
                run = await self._workspace.run_script(script, diff, env=repeat_environment(1))
            except PatchRejected:
                return None
            return run.exit_code

        return await gather_all(run(diff) for diff in diffs)


def _show_difference(diff: str, spoilt: str) -> str:
    """The lines of `diff` that are others, or missing, in `spoilt`, without their own signs."""
    lines = difflib.unified_diff(diff.split("\n"), spoilt.split("\n"), n=0, lineterm="")
    heads = ("---", "+++")
    changes = [
        line
        for line in lines
        if line[:2] in ("-+", "++", "--") and not line.startswith(heads) and line[1:4] not in heads
    ]
    return "\n".join(line[0] + line[2:] for line in changes)


class ChoosingState(State):
    chosen: int = 0
    """Index of a finalist. Finalists come best voted first, so the default is the first."""


class ChoosingMachine(Machine[ChoosingState]):
    """Replies: `<choice>` with a candidate's letter. Further turns only correct the format."""

    def __init__(
        self, model: Model, options: Options, *, issue: Issue, finalists: Finalists
    ) -> None:
        # Table 4 of CodeMonkeys: the selection is greedy.
        super().__init__(
            model, call="choosing", attempts=options.selection_attempts, temperature=0.0
        )
        self._issue = issue
        self._finalists = finalists

    @property
    def system(self) -> str:
        return render("choosing/system")

    def start(self) -> ChoosingState:
        finalists = self._finalists
        diffs = [finalists.table.candidates[c].patch.diff for c in finalists.indices]
        candidates = [
            {"letter": letter, "diff": diff}
            for letter, diff in zip(finalists.letters, diffs, strict=True)
        ]
        pending = render(
            "choosing/write", issue=self._issue, files=finalists.files, candidates=candidates
        )
        return ChoosingState(pending=pending)

    async def read(self, state: ChoosingState, reply: str) -> ReplyKind | Malformed:
        match only_tag(reply, "choice"):
            case Malformed() as malformed:
                return malformed
            case Tag(_, body):
                number = self._finalists.parse_choice(body)
                if isinstance(number, Malformed):
                    return number
                state.chosen = number
                return ReplyKind.APPROVED

    async def execute(self, state: ChoosingState) -> None:
        """Never called: this machine runs nothing."""


_LONGEST_COMMAND = 50_000
_MOST_CASES = 20


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
    command: str = ""
    """A command to run on every finalist; empty where the script is to be run."""
    rounds: list[Round] = Field(default_factory=list[Round])
    chosen: int = 0
    """Index of a finalist. Finalists come best voted first, so the default is the first."""
    why: str = ""
    """The model's reason for its choice, in a sentence; empty if it gave none. Untrusted."""
    asked: bool = False
    """Whether the model says that the issue itself asks for what its scripts check."""
    alike: bool = False
    """Whether the model says that the finalists do the same wherever it matters."""


class DiscriminatingMachine(Machine[DiscriminatingState]):
    """Replies: `<script>`, then `<script>` or `<choice>` with a candidate's letter.

    Where it weighs scripts, also `<bash>`: a command that is run on each finalist, to look around.
    """

    def __init__(
        self,
        workspace: Workspace,
        model: Model,
        *,
        issue: Issue,
        finalists: Finalists,
        ours: bool,
    ) -> None:
        """`ours`, unlike the paper: the first question shows the vote table, only scripts count
        that separate candidates steadily, and these decide when the model does not."""
        options = workspace.options
        # Table 4 of CodeMonkeys: the selection is greedy.
        super().__init__(
            model, call="selecting", attempts=options.selection_attempts, temperature=0.0
        )
        self._workspace = workspace
        self._seconds = options.execution_seconds
        self._issue = issue
        self._table = finalists.table
        self._tells_others = "other edits" not in options.without
        self._finalists = finalists
        self._check = ScriptCheck(workspace) if ours else None

    @property
    def system(self) -> str:
        return render(
            "selecting/system",
            seconds=f"{self._seconds:g}",
            commands=self._check is not None,
            language=self._workspace.describe_language(),
        )

    def start(self) -> DiscriminatingState:
        table, finalists = self._table, self._finalists
        candidates = [
            {
                "letter": letter,
                "diff": table.candidates[c].patch.diff,
                "suite": suite,
                "summary": table.candidates[c].summary if self._check else "",
                "cells": [_cell_text(run) for run in table.runs[c]],
                "cases": _list_own_cases(table, c, finalists.indices) if self._check else [],
            }
            for letter, c, suite in zip(
                finalists.letters,
                finalists.indices,
                finalists.suite or [""] * len(finalists.indices),
                strict=True,
            )
        ]
        number, test, separates = _find_script(table, finalists.indices)
        show_votes = self._check is not None and bool(table.tests)
        # Another order of the same candidates, and other pairs of them, share this prefix.
        context = render(
            "selecting/context",
            issue=self._issue,
            files=finalists.files,
            checklist=finalists.checklist,
        )
        pending = render(
            "selecting/write",
            missing=finalists.missing if self._tells_others else (),
            decided=finalists.decided,
            candidates=candidates,
            base=[_cell_text(run) for run in table.base] if show_votes else [],
            script=test.text if test else "",
            number=number + 1,
            separates=show_votes and separates,
            checking=table.checklist if show_votes else None,
            unclear=self._list_unclear() if show_votes else [],
        )
        first = Message(role="user", text=context)
        return DiscriminatingState(messages=[first], pending=pending)

    async def read(self, state: DiscriminatingState, reply: str) -> ReplyKind | Malformed:
        allowed = ["script"]
        if state.rounds:
            allowed.append("choice")
        if self._check:
            allowed.append("bash")
        match only_tag(reply, *allowed):
            case Malformed() as malformed:
                return malformed
            case Tag("choice", body):
                number = self._finalists.parse_choice(body)
                if isinstance(number, Malformed):
                    return number
                state.chosen = number
                _take_reason(state, reply)
                return ReplyKind.APPROVED
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

    async def execute(self, state: DiscriminatingState) -> str:
        return await (self._run_command(state) if state.command else self._run_script(state))

    async def _run_command(self, state: DiscriminatingState) -> str:
        """Run the command in a fresh checkout of each finalist; what it changes is lost."""
        runs = await gather_all(
            self._workspace.sandbox.run(
                shell_command(
                    state.command,
                    diffs=(self._table.candidates[c].patch.diff,),
                    seconds=self._seconds,
                    output_bytes=10_000,
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
            self._workspace.run_script(state.script, diff) for diff in ("", *edits)
        )
        fault = None
        if self._check:
            fault = await self._check.find_fault(state.script, edits, base, runs)
        why = fault.sentence if fault else ""
        state.rounds.append(Round(script=state.script, base=base, runs=tuple(runs), fault=why))
        if self._check:
            state.chosen = _pick_by_counting(state.rounds)
        return render(
            "selecting/review",
            base=base,
            runs=self._name_runs(runs),
            fault=fault,
            commands=self._check is not None,
        )

    def _list_unclear(self) -> list[dict[str, object]]:
        """The first runs without a verdict, of which an exit code says nothing."""
        finalists = self._finalists
        runs: list[dict[str, object]] = [
            {"letter": letter, "number": number, "run": run}
            for letter, c in zip(finalists.letters, finalists.indices, strict=True)
            for number, run in enumerate(self._table.runs[c], 1)
            if run.exit_code not in (0, NOT_FIXED)
        ]
        return runs[:3]

    def _name_runs(self, runs: Sequence[Execution]) -> list[dict[str, object]]:
        letters = self._finalists.letters
        return [{"letter": at, "run": run} for at, run in zip(letters, runs, strict=True)]


def _take_reason(state: DiscriminatingState, reply: str) -> None:
    found = some_tags(reply, "why", "asked", "alike")
    if not isinstance(found, Malformed):
        state.why = textwrap.shorten(found.get("why", ""), 400, placeholder=" […]")
        state.asked, state.alike = "asked" in found, "alike" in found


def _pick_by_counting(rounds: Sequence[Round]) -> int:
    """The finalist that passes most of the scripts that count; of equals, the best voted."""
    passed = Counter[int]()
    for one in rounds:
        if one.separates:
            passed.update(at for at, run in enumerate(one.runs) if run.passed)
    return max(range(len(rounds[0].runs)), key=lambda at: (passed[at], -at))


def _list_own_cases(table: VoteTable, candidate: int, among: Sequence[int]) -> list[str]:
    """What scripts print of cases with `candidate`, and not with each of `among`."""
    steady = [t for t in list_case_tests(table) if t not in table.flaky]
    printed = {c: {line for t in steady for line in list_cases(table.runs[c][t])} for c in among}
    shared = set[str].intersection(*printed.values())
    return sorted(printed[candidate] - shared)[:_MOST_CASES]


def _find_script(table: VoteTable, finalists: Sequence[int]) -> tuple[int, TestScript | None, bool]:
    """The script to show, its index first; whether some finalists pass it and others do not.

    Without one that separates them, the first finalist's script.
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


def _cell_text(run: Execution) -> str:
    return str(run.exit_code) if run.exit_code is not None else run.ending.value
