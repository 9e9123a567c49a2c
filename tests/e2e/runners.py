"""Pipelines whose answers a test chooses."""

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager

from bot.data.job import EVIDENCE_RUNS, Job, Outcome, PlanOutcome, SolveOutcome, VerificationRequest
from bot.data.run import RunId
from bot.runner.runner import PipelineRunner
from bot.runner.sandbox import build_engine
from bot.settings import Settings
from pipeline.data.progress import Doing, OnProgress
from pipeline.data.types import NoFix, Selection, TestScript, Usage
from pipeline.models.metering import Meter
from pipeline.store import Store
from pipeline.workflows.outcome import OUTCOME_KEY, SolveResult
from pipeline.workflows.plan import Plan
from pipeline.workflows.revise import Revision, RevisionTask
from pipeline.workflows.verify import Verification
from sandbox.base import Sandbox
from sandbox.program import Ending, Execution
from tests.support.data.publishing import ACCOUNTS, FAILS, PASSES, a_selection
from tests.support.sandboxes import PassingSandbox

PLAN = Plan(
    files=("shop.py",),
    script=TestScript(text="raise SystemExit(2)\n"),
    run=Execution(exit_code=2, output="total(1, 2) is -1", seconds=0.1, ending=Ending.EXIT),
    ceiling=4,
)


class FakeRunner(PipelineRunner):
    """Answers with a result or an error that the test chose, while the gate `go_on` is open.

    With `saves` it pays for a first call and saves its outcome, as the pipeline does.
    """

    def __init__(self, settings: Settings, *, saves: bool = False) -> None:
        super().__init__(settings, build_engine(settings))
        self._saves = saves
        self.answer: Selection | NoFix | Exception = a_selection()
        self.jobs: list[Job] = []
        self.asked: list[VerificationRequest] = []
        self.before: list[Execution] = [FAILS]
        self.after: list[Execution] = [PASSES]
        """What the reproduction test does on each side; over and over again."""
        self.broken: tuple[str, ...] = ()
        """The tests near a change that break with it."""
        self.verifying: Callable[[], object] | None = None
        """Called while the reproduction test runs."""
        self.tasks: list[RevisionTask] = []
        self.meanwhile: Callable[[], Awaitable[object]] | None = None
        """Called while the runner follows a review."""
        self.revised: Revision | Exception = Revision(patch=None, answer="It is as it should be.")
        self.answered: Callable[[], Awaitable[object]] | None = None
        """Called when an answer to an issue is paid for, and nobody but the runner has it."""
        self.go_on = asyncio.Event()
        self.go_on.set()
        self.waiting = False
        """Whether a run waits at the gate."""
        self.cut = 0
        """How many runs were cancelled at the gate."""

    async def clean_up(self, active: Sequence[RunId]) -> int:
        return 0

    async def evict_images(self, max_bytes: int) -> int:
        return 0

    async def solve(self, job: Job, store: Store, *, on_progress: OnProgress) -> SolveOutcome:
        await self._pass_gate(job, store)
        self.jobs.append(job)
        on_progress(Doing("Looking through 3 files."))
        if isinstance(self.answer, Exception):
            raise self.answer
        if self._saves:
            await store.save(OUTCOME_KEY, SolveResult(result=self.answer))
        if self.answered is not None:
            await self.answered()
        return Outcome(self.answer, ACCOUNTS)

    async def plan(self, job: Job, store: Store, *, on_progress: OnProgress) -> PlanOutcome:
        self.jobs.append(job)
        await self._pass_gate(job, store)
        return Outcome(PLAN, ACCOUNTS)

    @asynccontextmanager
    async def open_sandbox(
        self, job: Job, on_progress: OnProgress
    ) -> AsyncGenerator[tuple[str, Sandbox]]:
        on_progress(Doing("Preparing the environment."))
        yield "image", PassingSandbox()

    async def verify(
        self, job: Job, request: VerificationRequest, store: Store, *, on_progress: OnProgress
    ) -> Verification:
        self.asked.append(request)
        if self.verifying is not None:
            self.verifying()
        times = range(EVIDENCE_RUNS)
        return Verification(
            path=request.test,
            command=request.command,
            before=tuple(self.before[i % len(self.before)] for i in times),
            after=tuple(self.after[i % len(self.after)] for i in times),
            broken=self.broken if request.near else (),
        )

    async def revise(
        self, job: Job, task: RevisionTask, store: Store, *, on_progress: OnProgress
    ) -> Revision:
        if self._saves and (done := await store.load("revised", Revision)):
            return done
        self.tasks.append(task)
        if self.meanwhile is not None:
            await self.meanwhile()
        if isinstance(self.revised, Exception):
            raise self.revised
        if self._saves:
            await store.save("revised", self.revised)
        return self.revised

    async def _pass_gate(self, job: Job, store: Store) -> None:
        if self._saves:
            meter = await Meter.open(store, job.options.dollars)
            await meter.add("ranking/0", "m", Usage(output=1), 0.25)
        self.waiting = True
        try:
            await self.go_on.wait()
        except asyncio.CancelledError:
            self.cut += 1
            raise
        finally:
            self.waiting = False


class GatedRunner(FakeRunner):
    """Has one gate for each run, which opens when the test sets it."""

    def __init__(self, settings: Settings) -> None:
        super().__init__(settings)
        self.gates: dict[str, asyncio.Event] = {}
        self.arrived = asyncio.Event()
        """Set whenever a run comes to its gate."""

    async def solve(self, job: Job, store: Store, *, on_progress: OnProgress) -> SolveOutcome:
        await self._pass_gate(job, store)
        assert isinstance(self.answer, Selection | NoFix)
        return Outcome(self.answer, ACCOUNTS)

    async def _pass_gate(self, job: Job, store: Store) -> None:
        gate = self.gates[job.run_id] = asyncio.Event()
        self.arrived.set()
        try:
            await gate.wait()
        finally:
            del self.gates[job.run_id]
