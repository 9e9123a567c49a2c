"""Runs the pipeline for a job: opens its sandbox and its models, and returns one outcome."""

import dataclasses
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass
from typing import Any, Generic, TypeVar, cast

from bot.data.failure import Failure
from bot.data.job import (
    EVIDENCE_RUNS,
    Job,
    Outcome,
    PlanOutcome,
    SelectOutcome,
    SolveOutcome,
    VerificationRequest,
)
from bot.data.run import RunId
from bot.errors import TryLater
from bot.runner.models import ModelContext, ModelFactory, SelectionModels
from bot.settings import ModelSettings
from bot.telemetry.log import Stages
from pipeline.context.finder import SECONDS_KEY, ContextSeconds
from pipeline.data.presets import apply_preset
from pipeline.data.progress import Event, OnProgress, StageBegan
from pipeline.data.types import NoFix, Selection
from pipeline.edits.external import ExternalEdit
from pipeline.edits.patches import create_patch
from pipeline.environment.facts import EnvironmentFacts, facts_of, inform
from pipeline.environment.prepare import (
    Environment,
    EnvironmentTask,
    open_environment,
    open_image_store,
)
from pipeline.environment.record import EnvironmentRecord
from pipeline.languages.registry import main_language
from pipeline.models.base import Model
from pipeline.models.metering import Meter
from pipeline.models.wrappers import RETRY_WAITS
from pipeline.regression.near_tests import NearbyTests
from pipeline.resources import Workspace
from pipeline.select import ExternalJudge, ExternalTest
from pipeline.solve import Solver
from pipeline.store import SharingStore, Store
from pipeline.workflows.abstain import find_unsolvable
from pipeline.workflows.outcome import Models, load_context
from pipeline.workflows.revise import Revision, RevisionTask, revise
from pipeline.workflows.verify import Verification, verify
from sandbox.engine import Engine, EnvironmentRequest
from sandbox.errors import SandboxUnavailable
from sandbox.frozen import replace

T = TypeVar("T")
M = TypeVar("M", bound=Models | SelectionModels)

_MIN_CONTAINER_AGE_SECONDS = 60
"""A younger container may belong to a run that began after the active runs were listed."""


@dataclass(frozen=True)
class Opened(Generic[M]):
    """The open resources of one job."""

    meter: Meter
    environment: Environment
    models: M
    workspace: Workspace
    """Its store is the job's, which also shares the jobs' findings about the image."""

    async def outcome(self, result: T) -> Outcome[T]:
        """`result` with what the job has spent and read; take it after the models are closed."""
        store = self.workspace.store
        took = await store.load(SECONDS_KEY, ContextSeconds)
        return Outcome(
            with_environment(result, self.environment.record),
            self.meter.accounts(),
            self.environment.image,
            self.environment.record,
            await load_context(store),
            took.seconds if took else 0,
            self.meter.ledger.sent_to,
        )


class PipelineRunner:
    """Runs the pipeline with the engine and the models of the settings. One for each process.

    Work whose results a job's `store` contains is not repeated.

    Raises:
        ModelError, SandboxError, GitFailed: from every method; call it again to resume.
    """

    def __init__(
        self, settings: ModelSettings, engine: Engine, *, model_waits: Sequence[float] = RETRY_WAITS
    ) -> None:
        """`model_waits`: seconds before each further attempt at a model call that failed."""
        self.engine = engine
        self._models = ModelFactory(settings, waits=model_waits)
        self._generators = settings.generators
        self._strategy = settings.strategy
        self._orm_weight = settings.orm_weight

    async def solve(self, job: Job, store: Store, *, on_progress: OnProgress) -> SolveOutcome:
        """Solve the issue: the chosen edit with its evidence, or why there is no fix."""
        return await self._run_solver(
            job, store, on_progress, lambda solver: solver.solve(job.issue)
        )

    async def plan(self, job: Job, store: Store, *, on_progress: OnProgress) -> PlanOutcome:
        """Plan a fix: a dry run, or why there is no fix."""
        return await self._run_solver(
            job, store, on_progress, lambda solver: solver.plan(job.issue)
        )

    async def select(
        self,
        job: Job,
        edits: Sequence[ExternalEdit],
        store: Store,
        *,
        on_progress: OnProgress,
        tests: Sequence[ExternalTest] = (),
    ) -> SelectOutcome:
        """Choose among edits from any source, by `tests` too. Without a solver model, no tests are
        written."""
        if unsolvable := find_unsolvable(job.codebase, job.options.test_command):
            return Outcome(unsolvable, ())
        async with self.open_selection(job, store, on_progress) as space:
            judge = ExternalJudge(
                space.workspace, model=space.models.solver, reward=space.models.orm
            )
            choice = await judge.choose(job.issue, edits, tests)
        return await space.outcome(choice)

    async def revise(
        self, job: Job, task: RevisionTask, store: Store, *, on_progress: OnProgress
    ) -> Revision:
        """Let one editing machine answer a review or a conflict."""
        async with self._open(job, store, on_progress, self._models.open) as space:
            workspace = dataclasses.replace(space.workspace, store=store)
            near = NearbyTests(workspace) if job.options.nearby_seconds > 0 else None
            resources = workspace.with_model(space.models.solver)
            return await revise(task, resources, own_tests=near)

    async def verify(
        self, job: Job, request: VerificationRequest, store: Store, *, on_progress: OnProgress
    ) -> Verification:
        """Run the reproduction test without and with the change, and the tests near it."""
        if done := await store.load(request.key, Verification):
            return done
        async with self.open_workspace(job, store, on_progress) as space:
            found = await verify(
                space,
                request.changes,
                test=request.test,
                test_files=request.test_files,
                command=request.command,
                times=EVIDENCE_RUNS,
            )
            if request.near and found.verdict == "shown" and job.options.nearby_seconds > 0:
                diff = (await create_patch(job.codebase, request.changes)).diff
                report = await NearbyTests(space).compare(diff)
                found = replace(found, broken=report.broken if report else ())
        await store.save(request.key, found)
        return found

    async def _run_solver(
        self,
        job: Job,
        store: Store,
        on_progress: OnProgress,
        call: Callable[[Solver], Awaitable[T]],
    ) -> Outcome[T | NoFix]:
        """Call `call` with a solver of the job, and return its result."""

        def report(event: Event) -> None:
            if isinstance(event, StageBegan):
                stages.begin(event.stage)
            on_progress(event)

        if unsolvable := find_unsolvable(job.codebase, job.options.test_command):
            return Outcome(unsolvable, ())
        options = replace(
            job.options,
            generators=job.options.generators or self._generators,
            strategy=job.options.strategy or self._strategy,
        )
        if job.options.strategy is None:
            options = apply_preset(options)
        job = dataclasses.replace(job, options=options)
        with Stages("environment") as stages:
            async with self._open(job, store, report, self._models.open) as space:
                result = await call(Solver(space.models, space.workspace))
        return await space.outcome(result)

    def open_selection(
        self, job: Job, store: Store, on_progress: OnProgress
    ) -> AbstractAsyncContextManager[Opened[SelectionModels]]:
        """What choosing among edits needs, until the end of the block."""
        return self._open(job, store, on_progress, self._models.open_for_selection)

    @asynccontextmanager
    async def _open(
        self,
        job: Job,
        store: Store,
        on_progress: OnProgress,
        open_models: Callable[[ModelContext], AbstractAsyncContextManager[M]],
    ) -> AsyncGenerator[Opened[M]]:
        """Open the job's meter, its sandbox and its models; all are closed after the block."""
        if job.options.orm_weight is None:
            options = replace(job.options, orm_weight=self._orm_weight)
            job = dataclasses.replace(job, options=options)
        meter = await Meter.open(
            store, job.options.dollars, job.shared_budget, job.billable, on_progress
        )
        context = ModelContext(meter, job.options)
        async with (
            open_models(context) as models,
            self.open_environment(job, store, on_progress, model=models.solver) as environment,
        ):
            own = await main_language(job.codebase).distribution(job.codebase)
            facts = facts_of(environment.record, own)
            workspace = _build_workspace(job, store, environment, on_progress)
            yield Opened(meter, environment, inform_models(models, facts), workspace)

    @asynccontextmanager
    async def open_workspace(
        self, job: Job, store: Store, on_progress: OnProgress
    ) -> AsyncGenerator[Workspace]:
        """What runs tests and asks no model, in the environment that an earlier run has looked at.

        Raises as `open_environment`.
        """
        async with self.open_environment(job, store, on_progress, look=False) as environment:
            yield _build_workspace(job, store, environment, on_progress)

    @asynccontextmanager
    async def open_environment(
        self,
        job: Job,
        store: Store,
        on_progress: OnProgress,
        *,
        model: Model | None = None,
        look: bool = True,
    ) -> AsyncGenerator[Environment]:
        """Open the best environment of the job, with a sandbox in it; see `EnvironmentTask`.

        Raises:
            EnvironmentFailed: nothing could be installed.
            ModelError, SandboxUnavailable: call again to resume.
        """
        on_progress(StageBegan("environment", "Preparing the environment."))
        task = EnvironmentTask(
            engine=self.engine,
            request=await _build_request(job),
            repository=job.issue.repository,
            codebase=job.codebase,
            options=job.options,
            store=store,
            image_store=job.environment_store,
            repository_store=job.repository_store,
            model=model,
            on_progress=on_progress,
            look=look,
        )
        async with open_environment(task) as environment:
            del task  # the archive of the checkout is in the image now
            yield environment

    async def clean_up(self, active: Sequence[RunId]) -> int:
        """Remove the containers of runs that are not `active`; how many. Raises TryLater."""
        return await _ask(self.engine.reap(live_runs=active, older_than=_MIN_CONTAINER_AGE_SECONDS))

    async def evict_images(self, max_bytes: int) -> int:
        """Remove the least recently used images beyond `max_bytes`; how many bytes went. Raises
        TryLater."""
        return await _ask(self.engine.collect(max_bytes=max_bytes))


def _build_workspace(
    job: Job, store: Store, environment: Environment, on_progress: OnProgress
) -> Workspace:
    shared = open_image_store(store, environment.image, job.environment_store)
    return Workspace(
        environment.sandbox,
        job.codebase,
        SharingStore(store, shared),
        job.options,
        on_progress=on_progress,
        listen=job.listen,
    )


def inform_models(models: M, facts: EnvironmentFacts | None) -> M:
    """`models` with solvers that know `facts`; the scout runs nothing and needs none."""
    if models.solver is None or facts is None:
        return models
    changed: dict[str, Any] = {"solver": inform(models.solver, facts)}
    if isinstance(models, Models):
        changed["solvers"] = {name: inform(one, facts) for name, one in models.solvers.items()}
    return dataclasses.replace(models, **changed)


def with_environment(result: T, record: EnvironmentRecord) -> T:
    """`result`; what was found or chosen in a broken environment says that first, and what was
    chosen in another, which projects have no results and which tests fail at times."""
    sentence = record.complaint()
    changed: Any = result
    if sentence and isinstance(result, NoFix):
        changed = replace(result, details=(sentence, *result.details))
    if isinstance(result, Selection):
        evidence = result.evidence
        passed = evidence.suite.before.passed if evidence.suite else ()
        notes = filter(None, (sentence or record.tell_gap(), record.tell_unsteady(passed)))
        changed = replace(result, evidence=replace(evidence, notes=(*notes, *evidence.notes)))
    return cast(T, changed)


async def _ask(answer: Awaitable[int]) -> int:
    try:
        return await answer
    except SandboxUnavailable as error:
        raise TryLater(Failure.SANDBOX_UNAVAILABLE, _MIN_CONTAINER_AGE_SECONDS) from error


async def _build_request(job: Job) -> EnvironmentRequest:
    described = await job.codebase.describe()
    language = main_language(job.codebase)
    if not described and job.describe and await language.reads_version_from_git(job.codebase):
        described = await job.describe()
    environment = dataclasses.replace(
        job.environment, root=job.codebase.root, language=job.codebase.language
    )
    return EnvironmentRequest(
        await job.codebase.build_tree(),
        image=job.image,
        **vars(environment),
        scope=job.scope,
        run_id=job.run_id,
        as_of=job.as_of or await job.codebase.read_date(),
        described=described,
    )
