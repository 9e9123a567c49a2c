"""The whole algorithm on one page: an issue and a codebase in, a chosen edit or an honest no out.

    Issue ─▶ Context ─▶ n × (test ─▶ edit) ─▶ VoteTable ─▶ Choice ─▶ Reproduction ─▶ Selection

Each arrow is saved under its own key: calling `solve` again after a crash goes on at the first
thing that was not finished, and after completion asks no model and runs nothing.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from pipeline import learnt
from pipeline.codebase import Codebase
from pipeline.context.finding import ContextFinder
from pipeline.errors import BudgetSpent
from pipeline.estimate import ESTIMATE_KEY, estimate
from pipeline.models.base import Model
from pipeline.options import Options
from pipeline.proof import Prover
from pipeline.sampling import Sampler
from pipeline.selection.choosing import Chooser
from pipeline.selection.voting import finalists, reporting, vote
from pipeline.store import Store
from pipeline.types import Candidate, Context, Frozen, Issue, NoFix, Selection
from sandbox.base import Sandbox

Progress = Callable[[str, str], Awaitable[None]]
"""Told a stage and a detail, in plain words for a person."""


@dataclass(frozen=True)
class Models:
    solver: Model
    scout: Model | None
    """Reads every file; None: files are found by the words they share with the issue."""


OUTCOME_KEY = "outcome"


class Solved(Frozen):
    """What is saved at the end of `solve`."""

    result: Selection | NoFix


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
        if saved := await self._store.load(OUTCOME_KEY, Solved):
            return saved.result
        try:
            result = await self._solve(issue)
        except BudgetSpent as spent:
            result = NoFix(reason="out of budget", learnt=(learnt.budget(spent),))
        if not (isinstance(result, NoFix) and result.reason == "out of budget"):
            await self._store.save(OUTCOME_KEY, Solved(result=result))
        return result

    async def _solve(self, issue: Issue) -> Selection | NoFix:
        if not self._codebase.files:
            return NoFix(reason="empty repository")
        if not any(path.endswith(".py") for path in self._codebase.files):
            return NoFix(reason="no source files", learnt=(learnt.NO_PYTHON,))
        await self._say("context", f"looking through {len(self._codebase.files)} files")
        context = await self._context(issue)
        if context is None:
            return NoFix(reason="no relevant files", learnt=(learnt.NO_CONTEXT,))
        await self._say("samples", await self._plan(context))
        sampler = Sampler(
            self._models.solver, self._sandbox, self._codebase, self._store, self._options
        )
        candidates = await sampler.sample(issue, context)
        if isinstance(candidates, NoFix):
            return candidates
        return await self._choose(issue, context, candidates)

    async def _context(self, issue: Issue) -> Context | None:
        finder = ContextFinder(
            solver=self._models.solver,
            scout=self._models.scout,
            store=self._store,
            options=self._options,
        )
        return await finder.find(self._codebase, issue)

    async def _choose(
        self, issue: Issue, context: Context, candidates: list[Candidate]
    ) -> Selection | NoFix:
        await self._say("votes", f"running every test on {len(candidates)} candidates")
        seconds = self._options.execution_seconds
        table = await vote(candidates, sandbox=self._sandbox, store=self._store, seconds=seconds)
        if not reporting(table):
            return NoFix(reason="no reproduction", learnt=learnt.votes(table))
        leaders = finalists(table, self._options.finalists)
        if not leaders:
            return NoFix(reason="no edit passes its test", learnt=learnt.votes(table))
        await self._say("selection", f"choosing among {len(leaders)} edits")
        chooser = Chooser(
            self._models.solver, self._sandbox, self._codebase, self._store, self._options
        )
        chosen = await chooser.choose(issue, table, leaders)
        if isinstance(chosen, NoFix):
            return chosen
        await self._say("reproduction", "writing the regression test")
        prover = Prover(
            self._models.solver, self._sandbox, self._codebase, self._store, self._options
        )
        try:
            return await prover.prove(issue, context, table, chosen)
        except BudgetSpent as spent:
            known = (learnt.budget(spent), *learnt.votes(table))
            return NoFix(reason="out of budget", learnt=known)

    async def _plan(self, context: Context) -> str:
        """What is about to be written, and about what it will cost, in words."""
        guess = estimate(context, self._models.solver.profile, self._options)
        await self._store.save(ESTIMATE_KEY, guess)
        wave, samples = self._options.first_wave, self._options.samples
        some = self._options.adaptive and samples > wave
        number = f"{wave} to {samples}" if some else f"{samples}"
        price = f"; all of them cost about ${guess.dollars:.2f}" if guess.dollars else ""
        return f"writing {number} tests and edits{price}"

    async def _say(self, stage: str, detail: str) -> None:
        if self._progress:
            await self._progress(stage, detail)
