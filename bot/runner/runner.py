"""Runs the pipeline for a job: opens its sandbox and its models, and returns one outcome."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass
from typing import Generic, TypeVar

from structlog.contextvars import bind_contextvars, bound_contextvars

from bot.errors import TryLater
from bot.runner.models import ModelContext, ModelFactory
from bot.runner.types import (
    Job,
    OnProgress,
    Outcome,
    PlanOutcome,
    SelectionRequest,
    SelectOutcome,
    SolveOutcome,
    VerificationRequest,
)
from bot.settings import Settings
from bot.storage.draining import InFlightWork
from bot.types import Failure
from pipeline.context.finder import CONTEXT_KEY, SECONDS_KEY, ContextSeconds
from pipeline.models.wrappers.metered import Meter
from pipeline.models.wrappers.throttled import RETRY_WAITS
from pipeline.regression.nearby import NearbyTests
from pipeline.resources import Resources
from pipeline.select import Selector
from pipeline.solve import Solver, find_unsolvable
from pipeline.store import Store
from pipeline.types import Context, NoFix, Selection
from pipeline.workflows.plan import Plan
from pipeline.workflows.revise import Revision, RevisionTask, revise
from pipeline.workflows.verify import Verification, verify
from sandbox.base import Sandbox
from sandbox.engine import Engine, EnvironmentRequest
from sandbox.errors import SandboxUnavailable

T = TypeVar("T")
M = TypeVar("M")

_MIN_CONTAINER_AGE_SECONDS = 60
"""A younger container may belong to a run that began after the active runs were listed."""


@dataclass(frozen=True)
class _Workspace(Generic[M]):
    """What one job runs with, while it is open."""

    meter: Meter
    image: str
    sandbox: Sandbox
    models: M
    store: Store
    """The job's store, which also shares what jobs found out about the image."""

    async def outcome(self, result: T) -> Outcome[T]:
        """`result` with what the job has spent and read; take it after the models are closed."""
        took = await self.store.load(SECONDS_KEY, ContextSeconds)
        return Outcome(
            result,
            self.meter.accounts(),
            self.image,
            await self.store.load(CONTEXT_KEY, Context),
            took.seconds if took else 0,
            self.meter.ledger.sent_to,
        )


class PipelineRunner:
    """Runs the pipeline with the engine and the models of the settings. One for each process.

    What a job's `store` holds already is not done again.

    Raises:
        ModelError, SandboxError, GitFailed: from every method; call it again to go on.
    """

    def __init__(
        self, settings: Settings, engine: Engine, *, model_waits: Sequence[float] = RETRY_WAITS
    ) -> None:
        """`model_waits`: seconds before each further attempt at a model call that failed."""
        self.engine = engine
        self._images_mb = settings.sandbox_images_mb
        self._models = ModelFactory(settings, waits=model_waits)

    async def solve(
        self, job: Job, store: Store, *, in_flight: InFlightWork, on_progress: OnProgress
    ) -> SolveOutcome:
        """The chosen edit with its evidence, or why there is none."""

        async def call(solver: Solver) -> Selection | NoFix:
            return await solver.solve(job.issue)

        with bound_contextvars(stage="environment"):
            return await self._run_solver(job, store, in_flight, on_progress, call)

    async def plan(
        self, job: Job, store: Store, *, in_flight: InFlightWork, on_progress: OnProgress
    ) -> PlanOutcome:
        """A dry run, or why there is none."""

        async def call(solver: Solver) -> Plan | NoFix:
            return await solver.plan(job.issue)

        with bound_contextvars(stage="environment"):
            return await self._run_solver(job, store, in_flight, on_progress, call)

    async def select(
        self,
        job: Job,
        request: SelectionRequest,
        store: Store,
        *,
        in_flight: InFlightWork,
        on_progress: OnProgress,
    ) -> SelectOutcome:
        """The choice among edits from anywhere. Without a solver model no tests are written."""

        async def report(detail: str) -> None:
            on_progress(_as_sentence(detail))

        if unsolvable := find_unsolvable(job.codebase):
            return Outcome(unsolvable, ())
        open_models = self._models.open_for_selection
        async with self._open(job, store, in_flight, on_progress, open_models) as space:
            model, reward = space.models
            selector = Selector(
                model=model,
                reward=reward,
                sandbox=space.sandbox,
                codebase=job.codebase,
                store=space.store,
                options=job.options,
                progress=report,
            )
            choice = await selector.select(job.issue, request.edits, request.tests)
        return await space.outcome(choice)

    async def revise(
        self,
        job: Job,
        task: RevisionTask,
        store: Store,
        *,
        in_flight: InFlightWork,
        on_progress: OnProgress,
    ) -> Revision:
        """One editing machine's answer to a review or a conflict."""
        async with self._open(job, store, in_flight, on_progress, self._models.open) as space:
            early = job.options.nearby_seconds > 0
            near = NearbyTests(job.codebase, space.sandbox, store, job.options) if early else None
            resources = Resources(
                space.models.solver, space.sandbox, job.codebase, store, job.options
            )
            return await revise(task, resources, own_tests=near)

    async def verify(
        self, job: Job, request: VerificationRequest, store: Store, *, on_progress: OnProgress
    ) -> Verification:
        """Run the reproduction test without and with the change, `request.times` times each."""
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

    async def _run_solver(
        self,
        job: Job,
        store: Store,
        in_flight: InFlightWork,
        on_progress: OnProgress,
        call: Callable[[Solver], Awaitable[T]],
    ) -> Outcome[T | NoFix]:
        """What `call` gets from a solver of the job."""

        async def report(stage: str, detail: str) -> None:
            bind_contextvars(stage=stage)
            on_progress(_as_sentence(detail))

        if unsolvable := find_unsolvable(job.codebase):
            return Outcome(unsolvable, ())
        async with self._open(job, store, in_flight, on_progress, self._models.open) as space:
            solver = Solver(
                models=space.models,
                sandbox=space.sandbox,
                codebase=job.codebase,
                store=space.store,
                options=job.options,
                progress=report,
            )
            result = await call(solver)
        return await space.outcome(result)

    @asynccontextmanager
    async def _open(
        self,
        job: Job,
        store: Store,
        in_flight: InFlightWork,
        on_progress: OnProgress,
        open_models: Callable[[ModelContext], AbstractAsyncContextManager[M]],
    ) -> AsyncGenerator[_Workspace[M]]:
        """The job's meter, its sandbox and its models; all are closed after the block."""
        meter = await Meter.open(store, job.options.dollars, job.shared_budget)
        context = ModelContext(meter, in_flight, job.options, store)
        async with (
            self.open_sandbox(job, on_progress) as (image, sandbox),
            open_models(context) as models,
        ):
            shared = job.with_environment_store(store, image)
            yield _Workspace(meter, image, sandbox, models, shared)

    @asynccontextmanager
    async def open_sandbox(
        self, job: Job, on_progress: OnProgress
    ) -> AsyncGenerator[tuple[str, Sandbox]]:
        """Prepare the job's environment image and open a sandbox in it."""
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
        """Remove the containers of runs that are not `active`; returns how many it removed.

        Also removes the least recently used images until the rest fits into the settings' limit.

        Raises:
            TryLater: Docker does not answer.
        """
        try:
            removed = await self.engine.reap(
                live_runs=active, older_than=_MIN_CONTAINER_AGE_SECONDS
            )
            await self.engine.collect(max_bytes=self._images_mb * 1_000_000)
        except SandboxUnavailable as error:
            raise TryLater(Failure.SANDBOX_UNAVAILABLE, _MIN_CONTAINER_AGE_SECONDS) from error
        return removed


def _as_sentence(detail: str) -> str:
    return f"{detail[:1].upper()}{detail[1:]}."
