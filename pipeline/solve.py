"""The whole algorithm on one page: an issue and a codebase in, a chosen edit or an honest no out.

    Issue ─▶ Context ─▶ n × (test ─▶ edit) ─▶ VoteTable ─▶ Choice ─▶ Reproduction ─▶ Selection

Each arrow is saved under its own key: calling `solve` again after a crash goes on at the first
thing that was not finished, and after completion asks no model and runs nothing.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from pipeline import reasons
from pipeline.codebase.commit import Codebase
from pipeline.errors import BudgetSpent
from pipeline.options import Options
from pipeline.resources import Resources
from pipeline.selection.judge import Judge
from pipeline.store import Store
from pipeline.types import Candidate, Context, Issue, NoFix, Selection
from pipeline.workflows.abstain import abstain_below, find_unsolvable
from pipeline.workflows.outcome import OUTCOME_KEY, SolveResult
from pipeline.workflows.plan import ESTIMATE_KEY, Plan, estimate_cost, plan, samples_sentence
from pipeline.workflows.reproduce import ReproductionStep
from pipeline.workflows.sampling import Sampler
from pipeline.workflows.setup import EFFECTIVE_KEY, Models, context_finder, effective_setup
from pipeline.workflows.vote_on_revisions import vote_on_revisions
from sandbox.base import Sandbox

Progress = Callable[[str, str], Awaitable[None]]
"""Called with a stage and a detail, in plain words for a person."""


class Solver:
    """Solves one issue in one codebase. One `store` is for one issue at one commit."""

    def __init__(
        self,
        *,
        models: Models,
        sandbox: Sandbox,
        codebase: Codebase,
        store: Store,
        options: Options,
        progress: Progress | None = None,
    ) -> None:
        self._models, self._codebase, self._store, self._options = models, codebase, store, options
        self._resources = Resources(models.solver, sandbox, codebase, store, options)
        self._progress = progress

    async def solve(self, issue: Issue) -> Selection | NoFix:
        """The chosen edit with its evidence, or why there is none and what was learnt.

        Raises:
            ModelUnavailable, ModelMisconfigured, SandboxError: see there; call again to go on.
        """
        if saved := await self._store.load(OUTCOME_KEY, SolveResult):
            return saved.result
        await self._store.save(EFFECTIVE_KEY, effective_setup(self._models, self._options))
        try:
            result = await self._solve(issue)
        except BudgetSpent as spent:
            result = NoFix(reason="out of budget", details=(reasons.budget_sentence(spent),))
        # With a higher ceiling or a lower threshold, a run that is started again goes on.
        if not isinstance(result, NoFix) or result.is_final:
            await self._store.save(OUTCOME_KEY, SolveResult(result=result))
        return result

    async def plan(self, issue: Issue) -> Plan | NoFix:
        """A dry run: the context, one script that reproduces the issue, an estimate of the cost.

        A `solve` with the same store does not repeat what this saves. Raises the same errors.
        """
        try:
            context = await self._find_context(issue)
        except BudgetSpent as spent:
            return NoFix(reason="out of budget", details=(reasons.budget_sentence(spent),))
        if isinstance(context, NoFix):
            return context
        await self._report("samples", "writing a test that reproduces it")
        return await plan(issue, context, self._resources)

    async def _solve(self, issue: Issue) -> Selection | NoFix:
        if unsolvable := find_unsolvable(self._codebase):
            return unsolvable
        await self._report("context", f"looking through {len(self._codebase.files)} files")
        context = await self._find_context(issue)
        if isinstance(context, NoFix):
            return context
        estimate = estimate_cost(context, self._models.solver.profile, self._options)
        await self._store.save(ESTIMATE_KEY, estimate)
        await self._report("samples", samples_sentence(estimate, self._options))
        candidates = await Sampler(self._resources).sample(issue, context)
        if isinstance(candidates, NoFix):
            return candidates
        return await self._choose(issue, context, candidates)

    async def _find_context(self, issue: Issue) -> Context | NoFix:
        finder = context_finder(self._models, self._store, self._options, self._report_scan)
        context = await finder.find(self._codebase, issue)
        return context or NoFix(reason="no relevant files", details=(reasons.NO_CONTEXT,))

    async def _choose(
        self, issue: Issue, context: Context, candidates: list[Candidate]
    ) -> Selection | NoFix:
        await self._report("votes", f"running every test on {len(candidates)} candidates")
        r = self._resources
        judge = Judge(r.model, r.sandbox, r.codebase, r.store, r.options, reward=self._models.orm)
        await self._report("selection", f"choosing among {len(candidates)} edits")
        judged = await judge.judge(issue, candidates, files=context.files)
        if r.options.all_revisions:
            await vote_on_revisions(judged.table, r, self._report)
        if judged.verdict.chosen is None or judged.verdict.confidence < r.options.confidence:
            return abstain_below(judged, r.options.confidence)
        await self._report("reproduction", "writing the regression test")
        return await ReproductionStep(r).run(issue, context, judged)

    async def _report_scan(self, done: int, total: int) -> None:
        await self._report("context", f"the scout has read {done:,} of {total:,} files")

    async def _report(self, stage: str, detail: str) -> None:
        if self._progress:
            await self._progress(stage, detail)
