"""One attempt at one issue on a checkout: environment, models, pipeline. Knows no GitHub."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Generic, TypeVar

from bot.errors import TryLater
from bot.runner.models import ModelContext, ModelFactory
from bot.runner.types import (
    Job,
    OnProgress,
    Outcome,
    PlanOutcome,
    SelectionOutcome,
    SelectionRequest,
    VerificationRequest,
)
from bot.settings import Settings
from bot.storage.draining import InFlightWork
from bot.types import Failure
from pipeline.context.finder import CONTEXT_KEY, SECONDS_KEY, ContextSeconds
from pipeline.models.wrappers.metered import Meter
from pipeline.models.wrappers.throttled import RETRY_WAITS
from pipeline.regression.nearby import NearbyTests
from pipeline.select import Selector
from pipeline.solve import Solver, find_unsolvable
from pipeline.store import Store
from pipeline.types import Account, Context, NoFix, Selection
from pipeline.workflows.plan import Plan
from pipeline.workflows.revise import Revision, RevisionTask, revise
from pipeline.workflows.verify import Verification, verify
from sandbox.base import Sandbox
from sandbox.engine import Engine, EnvironmentRequest
from sandbox.errors import SandboxUnavailable

T = TypeVar("T")


_MIN_AGE_SECONDS = 60
"""A container younger than this may be of a run that began after the active ones were listed."""


SolverCall = Callable[[Solver], Awaitable[T]]


@dataclass(frozen=True)
class _SolverResult(Generic[T]):
    """What came of a solver, and what it took."""

    result: T
    accounts: tuple[Account, ...]
    image: str = ""
    context: Context | None = None
    context_seconds: float = 0
    sent_to: tuple[str, ...] = ()

    def outcome(self, result: Selection | NoFix) -> Outcome:
        context = (self.context, self.context_seconds)
        return Outcome(result, self.accounts, self.image, *context, self.sent_to)


class PipelineRunner:
    """Solves jobs with the engine and the models of the settings. One for each process."""

    def __init__(
        self, settings: Settings, engine: Engine, *, model_waits: Sequence[float] = RETRY_WAITS
    ) -> None:
        """`model_waits`: seconds before each further attempt at a question that failed."""
        self.engine = engine
        self._images_mb = settings.sandbox_images_mb
        self._models = ModelFactory(settings, waits=model_waits)

    async def solve(
        self, job: Job, store: Store, *, in_flight: InFlightWork, on_progress: OnProgress
    ) -> Outcome:
        """The pipeline's answer; what `store` holds already is not done again.

        Raises:
            ModelError, SandboxError, GitFailed: see there.
        """

        async def call(solver: Solver) -> Selection | NoFix:
            return await solver.solve(job.issue)

        done = await self._run_solver(job, store, in_flight, on_progress, call)
        return done.outcome(done.result)

    async def plan(
        self, job: Job, store: Store, *, in_flight: InFlightWork, on_progress: OnProgress
    ) -> PlanOutcome | Outcome:
        """A dry run, or why there can be none. Raises as `solve`."""

        async def call(solver: Solver) -> Plan | NoFix:
            return await solver.plan(job.issue)

        done = await self._run_solver(job, store, in_flight, on_progress, call)
        if isinstance(done.result, Plan):
            return PlanOutcome(done.result, done.accounts)
        return done.outcome(done.result)

    async def _run_solver(
        self,
        job: Job,
        store: Store,
        in_flight: InFlightWork,
        on_progress: OnProgress,
        call: SolverCall[T],
    ) -> _SolverResult[T | NoFix]:
        """What `call` gets from a solver with all that it needs."""

        async def progress(stage: str, detail: str) -> None:  # noqa: ARG001 - the detail says it
            on_progress(detail[:1].upper() + detail[1:] + ".")

        meter = await Meter.open(store, job.options.dollars, job.shared_budget)
        if unsolvable := find_unsolvable(job.codebase):
            return _SolverResult(unsolvable, meter.accounts())
        async with (
            self.open_sandbox(job, on_progress) as (image, sandbox),
            self._models.open(ModelContext(meter, in_flight, job.options, store)) as models,
        ):
            solver = Solver(
                models=models,
                sandbox=sandbox,
                codebase=job.codebase,
                store=job.with_environment_store(store, image),
                options=job.options,
                progress=progress,
            )
            result = await call(solver)
        context = await store.load(CONTEXT_KEY, Context)
        took = await store.load(SECONDS_KEY, ContextSeconds)
        seconds = took.seconds if took else 0
        sent_to = meter.ledger.sent_to
        return _SolverResult(result, meter.accounts(), image, context, seconds, sent_to)

    async def verify(
        self, job: Job, request: VerificationRequest, store: Store, *, on_progress: OnProgress
    ) -> Verification:
        """The reproduction test on both sides, as often as `request` says. Saved once it is done.

        Raises:
            SandboxError, GitFailed: see there.
        """
        if done := await store.load(request.key, Verification):
            return done
        async with self.open_sandbox(job, on_progress) as (_, sandbox):
            found = await verify(
                job.codebase,
                request.changes,
                test=request.test,
                command=request.command,
                sandbox=sandbox,
                times=request.times,
                seconds=job.options.execution_seconds,
            )
        await store.save(request.key, found)
        return found

    async def revise(
        self,
        job: Job,
        task: RevisionTask,
        store: Store,
        *,
        in_flight: InFlightWork,
        on_progress: OnProgress,
    ) -> Revision:
        """What one editing machine makes of a review. Raises as `solve`."""
        meter = await Meter.open(store, job.options.dollars, job.shared_budget)
        async with (
            self.open_sandbox(job, on_progress) as (_, sandbox),
            self._models.open(ModelContext(meter, in_flight, job.options, store)) as models,
        ):
            early = job.options.nearby_seconds > 0
            near = NearbyTests(job.codebase, sandbox, store, job.options) if early else None
            return await revise(
                task,
                model=models.solver,
                sandbox=sandbox,
                codebase=job.codebase,
                options=job.options,
                store=store,
                own_tests=near,
            )

    async def select(
        self,
        job: Job,
        request: SelectionRequest,
        store: Store,
        *,
        in_flight: InFlightWork,
        on_progress: OnProgress,
    ) -> SelectionOutcome | Outcome:
        """The choice among edits from anywhere, or why nothing can be run here. Raises as `solve`.

        Where no solver is set, what needs none is done.
        """

        async def progress(detail: str) -> None:
            on_progress(detail[:1].upper() + detail[1:] + ".")

        meter = await Meter.open(store, job.options.dollars, job.shared_budget)
        if unsolvable := find_unsolvable(job.codebase):
            return Outcome(unsolvable, meter.accounts())
        async with (
            self.open_sandbox(job, on_progress) as (image, sandbox),
            self._models.open_for_selection(ModelContext(meter, in_flight, job.options, store)) as (
                model,
                reward,
            ),
        ):
            selector = Selector(
                model=model,
                reward=reward,
                sandbox=sandbox,
                codebase=job.codebase,
                store=job.with_environment_store(store, image),
                options=job.options,
                progress=progress,
            )
            choice = await selector.select(job.issue, request.edits, request.tests)
        return SelectionOutcome(choice, meter.accounts(), image)

    @asynccontextmanager
    async def open_sandbox(
        self, job: Job, on_progress: OnProgress
    ) -> AsyncGenerator[tuple[str, Sandbox]]:
        """The job's environment image, and a sandbox in it. Raises SandboxError."""
        on_progress("Preparing the environment.")
        request = EnvironmentRequest(
            await job.codebase.build_tree(),
            setup=job.setup,
            dockerfile=job.dockerfile,
            python=job.python,
            scope=job.issue.repository,
            run_id=job.run_id,
        )
        image = await self.engine.prepare(request, on_progress=on_progress)
        del request  # the archive of the checkout is in the image now
        async with self.engine.open(image, run_id=job.run_id) as sandbox:
            yield image, sandbox

    async def clean_up(self, active: list[str]) -> int:
        """Remove the containers of runs that are not active; how many there were.

        Images go too, the least recently used first, until the rest fits into the settings' size.

        Raises:
            TryLater: Docker does not answer.
        """
        try:
            removed = await self.engine.reap(live_runs=active, older_than=_MIN_AGE_SECONDS)
            await self.engine.collect(max_bytes=self._images_mb * 1_000_000)
        except SandboxUnavailable as error:
            raise TryLater(Failure.SANDBOX_UNAVAILABLE, _MIN_AGE_SECONDS) from error
        return removed
