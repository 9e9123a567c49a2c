"""The last arrow: the chosen edit's script becomes a test of the repository, seen red and green."""

from __future__ import annotations

from pipeline import reasons
from pipeline.codebase.conventions import Conventions, detect_conventions
from pipeline.errors import BudgetSpent
from pipeline.generation.reproduction import (
    Draft,
    ReproductionMachine,
    ReproductionState,
    choose_test_path,
    render_plain_test,
)
from pipeline.machine import drive
from pipeline.resources import Resources
from pipeline.selection.verdict import Judgement
from pipeline.selection.voting import is_good_enough, reproducing_tests
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
from pipeline.workflows.abstain import abstain


class ReproductionStep:
    """Has the reproduction test written and seen red and green."""

    def __init__(self, resources: Resources) -> None:
        self._resources = resources
        self._codebase = resources.codebase

    async def run(self, issue: Issue, context: Context, judged: Judgement) -> Selection | NoFix:
        """The selection with its evidence; a candidate must be chosen.

        When the budget is spent before a model's test file is ready, an edit that is good enough
        gets a plain one, if that test shows the issue; else the result is a `NoFix`.

        Raises:
            ModelError, SandboxError: see there.
        """
        table, verdict, candidate = judged.table, judged.verdict, judged.chosen
        if candidate is None or verdict.chosen is None:
            raise ValueError("nothing was chosen")
        conventions = await detect_conventions(self._codebase)
        options = self._resources.options
        path = choose_test_path(issue, candidate.patch, conventions, self._codebase, options)
        if path is None:
            return NoFix(reason="reproduction not confirmed", details=(reasons.NO_PLACE,))
        machine = ReproductionMachine(
            self._resources,
            issue=issue,
            conventions=conventions,
            patch=candidate.patch,
            script=_pick_script(table, verdict.chosen),
            example=await self._read_example(conventions),
            path=path,
        )
        try:
            state, cut_short = await self._write_test(machine, issue, table, verdict.chosen)
        except BudgetSpent as spent:
            known = (reasons.budget_sentence(spent), *reasons.vote_sentences(table))
            return NoFix(reason="out of budget", details=known)
        if state.reproduction is None or not (state.confirmed or cut_short):
            problem = state.problem or reasons.NO_TEST_FILE
            return abstain(judged, "reproduction not confirmed", problem)
        draft = state.drafts[-1]
        evidence = Evidence(
            votes=table,
            finalists=verdict.finalists,
            selection_rounds=verdict.rounds,
            reproduction=state.reproduction,
            suite=verdict.suite,
            suite_problem=verdict.suite_problem,
            title=draft.title,
            cause=draft.cause,
            change=draft.change,
            context=context,
            method=verdict.method,
            why=verdict.why,
            standings=verdict.standings,
            order=verdict.order,
            notes=verdict.notes,
            cut_short=cut_short,
        )
        return Selection(
            candidate=candidate,
            decided_by=verdict.decided_by,
            confidence=verdict.confidence,
            evidence=evidence,
        )

    async def _write_test(
        self, machine: ReproductionMachine, issue: Issue, table: VoteTable, candidate: int
    ) -> tuple[ReproductionState, str]:
        """The machine's end, or a plain test's with the sentence that says why it is one."""
        try:
            key = f"reproduction/{candidate}"
            return await drive(machine, ReproductionState, self._resources.store, key), ""
        except BudgetSpent as spent:
            if not is_good_enough(table, candidate):
                raise
            state = await self._run_plain_test(machine, issue, _pick_script(table, candidate))
            if state.reproduction is None:
                raise
            return state, f"{reasons.budget_sentence(spent)} {reasons.PLAIN_TEST}"

    async def _run_plain_test(
        self, machine: ReproductionMachine, issue: Issue, script: TestScript
    ) -> ReproductionState:
        """The script itself as the test file, executed as a model's would be."""
        state = machine.start()
        for runner in ("pytest", "unittest"):
            if state.runner != runner:
                continue
            title = f"Fix: {issue.title}"
            text = render_plain_test(script, runner, issue.title)
            state.drafts.append(
                Draft(
                    text=text,
                    title=title,
                    cause=reasons.NOT_DESCRIBED,
                    change=reasons.NOT_DESCRIBED,
                )
            )
            # Where pytest turns out not to be installed, the machine goes over to unittest.
            await machine.execute(state)
        return state

    async def _read_example(self, conventions: Conventions) -> SourceFile | None:
        path = conventions.example
        text = await self._codebase.read_text(path) if path else None
        return SourceFile(path=path, text=text, tokens=0) if path and text else None


def _pick_script(table: VoteTable, candidate: int) -> TestScript:
    """The candidate's own script if it reports the issue and passes with the edit; else another."""
    own = table.candidates[candidate].test
    steady = [t for t in reproducing_tests(table) if t not in table.flaky]
    fit = [table.tests[t] for t in steady if table.runs[candidate][t].passed]
    return own if own in fit and own else fit[0]
