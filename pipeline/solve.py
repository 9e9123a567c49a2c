"""The whole algorithm on one page: an issue and a codebase in, a chosen edit or an honest no out.

    Issue ─▶ Context ─▶ n × (test ─▶ edit) ─▶ VoteTable ─▶ Choice ─▶ Reproduction ─▶ Selection

Each arrow is saved under its own key: calling `solve` again after a crash goes on at the first
thing that was not finished, and after completion asks no model and runs nothing.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from pipeline import reasons
from pipeline.codebase.commit import Codebase
from pipeline.context.finder import ContextFinder
from pipeline.context.search.embeddings import EmbeddingRanker
from pipeline.context.tokens import ESTIMATOR, TokenCounter
from pipeline.errors import BudgetSpent
from pipeline.generation.editing import EditingState
from pipeline.models.base import Model, ModelProfile
from pipeline.models.likelihood import Reward
from pipeline.options import Options
from pipeline.selection.judge import Judge
from pipeline.selection.voting import earlier_revisions, vote
from pipeline.store import Store
from pipeline.types import Candidate, Context, Frozen, Issue, NoFix, Patch, Selection, VoteTable
from pipeline.workflows.abstain import abstain_below
from pipeline.workflows.plan import ESTIMATE_KEY, Plan, estimate_cost, plan
from pipeline.workflows.reproduce import ReproductionStep
from pipeline.workflows.sampling import Sampler
from sandbox.base import Sandbox

Progress = Callable[[str, str], Awaitable[None]]
"""Told a stage and a detail, in plain words for a person."""


@dataclass(frozen=True)
class Models:
    solver: Model
    scout: Model | None
    """Reads every file; None: files are found by the words they share with the issue."""
    counter: TokenCounter = ESTIMATOR
    """Counts tokens as the solver does."""
    orm: Reward | None = None
    """Parts edits that what was run leaves equal; None: nothing does."""
    scout_counter: TokenCounter = ESTIMATOR
    """Counts tokens as the scout does."""
    embedding_ranker: EmbeddingRanker | None = None
    """The embedding model that has a say in which files come first; None: words alone."""


OUTCOME_KEY = "outcome"
EFFECTIVE_KEY = "effective"


class EffectiveSetup(Frozen):
    """What a run really goes by: the options, and the models as they are then asked."""

    options: Options
    solver: ModelProfile
    scout: ModelProfile | None
    temperature: float | None
    """Of testing and editing; None where the solver takes none."""


class SolveResult(Frozen):
    """What is saved at the end of `solve`."""

    result: Selection | NoFix


def find_unsolvable(codebase: Codebase) -> NoFix | None:
    """Why there is no use in even preparing an environment; None where there may be."""
    if not codebase.files:
        return NoFix(reason="empty repository")
    if not any(path.endswith(".py") for path in codebase.files):
        return NoFix(reason="no source files", details=(reasons.NO_PYTHON,))
    return None


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
        self._models = models
        self._sandbox = sandbox
        self._codebase = codebase
        self._store = store
        self._options = options
        self._progress = progress

    async def solve(self, issue: Issue) -> Selection | NoFix:
        """The chosen edit with its evidence, or why there is none and what was learnt.

        Raises:
            ModelUnavailable, ModelMisconfigured, SandboxError: see there; call again to go on.
        """
        if saved := await self._store.load(OUTCOME_KEY, SolveResult):
            return saved.result
        await self._store.save(EFFECTIVE_KEY, self._effective_setup())
        try:
            result = await self._solve(issue)
        except BudgetSpent as spent:
            result = NoFix(reason="out of budget", details=(reasons.budget_sentence(spent),))
        # With a higher ceiling or a lower threshold, a run that is started again goes on.
        if not (
            isinstance(result, NoFix) and result.reason in ("out of budget", "not sure enough")
        ):
            await self._store.save(OUTCOME_KEY, SolveResult(result=result))
        return result

    async def plan(self, issue: Issue) -> Plan | NoFix:
        """A dry run: the context, one reproduction script, an estimate. Raises as `solve`.

        What it saves a `solve` with the same store does not do again.
        """
        try:
            context = await self._find_context(issue)
        except BudgetSpent as spent:
            return NoFix(reason="out of budget", details=(reasons.budget_sentence(spent),))
        if context is None:
            return NoFix(reason="no relevant files", details=(reasons.NO_CONTEXT,))
        await self._report_progress("samples", "writing a test that reproduces it")
        guess = estimate_cost(context, self._models.solver.profile, self._options)
        return await plan(
            issue,
            context,
            guess,
            model=self._models.solver,
            sandbox=self._sandbox,
            store=self._store,
            options=self._options,
        )

    async def _solve(self, issue: Issue) -> Selection | NoFix:
        if unsolvable := find_unsolvable(self._codebase):
            return unsolvable
        await self._report_progress("context", f"looking through {len(self._codebase.files)} files")
        context = await self._find_context(issue)
        if context is None:
            return NoFix(reason="no relevant files", details=(reasons.NO_CONTEXT,))
        await self._report_progress("samples", await self._estimate_samples(context))
        sampler = Sampler(
            self._models.solver, self._sandbox, self._codebase, self._store, self._options
        )
        candidates = await sampler.sample(issue, context)
        if isinstance(candidates, NoFix):
            return candidates
        return await self._choose(issue, context, candidates)

    async def _find_context(self, issue: Issue) -> Context | None:
        finder = ContextFinder(
            solver=self._models.solver,
            scout=self._models.scout,
            store=self._store,
            options=self._options,
            on_progress=self._report_scan,
            counter=self._models.counter,
            scout_counter=self._models.scout_counter,
            embedding_ranker=self._models.embedding_ranker,
        )
        return await finder.find(self._codebase, issue)

    async def _choose(
        self, issue: Issue, context: Context, candidates: list[Candidate]
    ) -> Selection | NoFix:
        await self._report_progress("votes", f"running every test on {len(candidates)} candidates")
        models, options = self._models, self._options
        judge = Judge(
            models.solver, self._sandbox, self._codebase, self._store, options, reward=models.orm
        )
        await self._report_progress("selection", f"choosing among {len(candidates)} edits")
        judged = await judge.judge(issue, candidates, files=context.files)
        if options.all_revisions:
            await self._vote_on_revisions(judged.table)
        if judged.verdict.chosen is None or judged.verdict.confidence < options.confidence:
            return abstain_below(judged, options.confidence)
        await self._report_progress("reproduction", "writing the regression test")
        step = ReproductionStep(models.solver, self._sandbox, self._codebase, self._store, options)
        try:
            return await step.run(issue, context, judged)
        except BudgetSpent as spent:
            known = (reasons.budget_sentence(spent), *reasons.vote_sentences(judged.table))
            return NoFix(reason="out of budget", details=known)

    async def _vote_on_revisions(self, table: VoteTable) -> None:
        """The rows stay in the store; see `Options.all_revisions`."""
        revisions: dict[int, list[Patch]] = {}
        for candidate in table.candidates:
            state = await self._store.load(f"editing/{candidate.sample}", EditingState)
            revisions[candidate.sample] = state.patches if state else []
        edits = [edit for edits in earlier_revisions(table, revisions).values() for edit in edits]
        await self._report_progress(
            "votes", f"running every test on {len(edits)} edits and their forerunners"
        )
        await vote(
            edits,
            sandbox=self._sandbox,
            store=self._store,
            seconds=self._options.execution_seconds,
            tests=table.tests,
        )

    async def _report_scan(self, done: int, total: int) -> None:
        await self._report_progress("context", f"the scout has read {done:,} of {total:,} files")

    def _effective_setup(self) -> EffectiveSetup:
        solver, scout = self._models.solver.profile, self._models.scout
        return EffectiveSetup(
            options=self._options,
            solver=solver,
            scout=scout.profile if scout else None,
            temperature=self._options.temperature if solver.sampling else None,
        )

    async def _estimate_samples(self, context: Context) -> str:
        """What is about to be written, and about what it will cost, in words."""
        guess = estimate_cost(context, self._models.solver.profile, self._options)
        await self._store.save(ESTIMATE_KEY, guess)
        wave, samples = self._options.first_wave, self._options.samples
        some = self._options.adaptive and samples > wave
        number = f"{wave} to {samples}" if some else f"{samples}"
        price = f"; all of them cost about ${guess.dollars:.2f}" if guess.dollars else ""
        return f"writing {number} tests and edits{price}"

    async def _report_progress(self, stage: str, detail: str) -> None:
        if self._progress:
            await self._progress(stage, detail)
