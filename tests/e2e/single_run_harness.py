"""A worker's work on one issue, all real but the pipeline, whose answer is decided beforehand."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack
from pathlib import Path

from redis.asyncio import Redis

from bot.errors import TryLater
from bot.git.mirrors import Mirrors
from bot.github.app import GitHubApp
from bot.localhub import Exchange, Issue, LocalHub, Repo
from bot.queue.attempt import HandleRun
from bot.runner.runner import PipelineRunner
from bot.runner.sandbox import build_engine
from bot.runner.types import Job, OnProgress, Outcome, SolveOutcome, VerificationRequest
from bot.settings import Settings
from bot.solve_issue import SolveIssue
from bot.storage.draining import InFlightWork
from bot.storage.lease import Lease
from bot.storage.storage import Storage
from bot.types import Run
from pipeline.store import Store
from pipeline.types import NoFix, Selection
from pipeline.workflows.revise import Revision, RevisionTask
from pipeline.workflows.verify import Verification
from sandbox.base import Execution
from tests.support.data.publishing import ACCOUNTS, FAILS, PASSES, SHOP, a_selection
from tests.support.hub import ref_of, settings_for


class Decided(PipelineRunner):
    """Answers at once, with an answer or an error that the test chose."""

    def __init__(self, settings: Settings) -> None:
        super().__init__(settings, build_engine(settings))
        self.answer: Selection | NoFix | Exception = a_selection()
        self.jobs: list[Job] = []
        self.asked: list[VerificationRequest] = []
        self.before: list[Execution] = [FAILS]
        self.after: list[Execution] = [PASSES]
        """What the reproduction test does on each side; over and over again."""
        self.verifying: Callable[[], object] | None = None
        """What a test looks at while the reproduction test is run."""
        self.tasks: list[RevisionTask] = []
        self.meanwhile: Callable[[], Awaitable[object]] | None = None
        """What somebody does while a review is followed."""
        self.revised: Revision | Exception = Revision(patch=None, answer="It is as it should be.")

    async def solve(
        self, job: Job, store: Store, *, in_flight: InFlightWork, on_progress: OnProgress
    ) -> SolveOutcome:
        self.jobs.append(job)
        on_progress("Looking through 3 files.")
        if isinstance(self.answer, Exception):
            raise self.answer
        return Outcome(self.answer, ACCOUNTS)

    async def verify(
        self, job: Job, request: VerificationRequest, store: Store, *, on_progress: OnProgress
    ) -> Verification:
        self.asked.append(request)
        if self.verifying is not None:
            self.verifying()
        times = range(request.times)
        return Verification(
            path=request.test,
            command=request.command,
            before=tuple(self.before[i % len(self.before)] for i in times),
            after=tuple(self.after[i % len(self.after)] for i in times),
        )

    async def revise(
        self,
        job: Job,
        task: RevisionTask,
        store: Store,
        *,
        in_flight: InFlightWork,
        on_progress: OnProgress,
    ) -> Revision:
        self.tasks.append(task)
        if self.meanwhile is not None:
            await self.meanwhile()
        if isinstance(self.revised, Exception):
            raise self.revised
        return self.revised


async def _awaited(work: HandleRun, lease: Lease) -> Run:
    return await work(lease.run, lease)


class Office:
    """A hub with one labelled issue, and as many workers in turn as a test needs."""

    def __init__(self, hub: LocalHub, redis: Redis, prefix: str, data: Path) -> None:
        self.hub = hub
        self.settings = settings_for(hub, data_dir=str(data))
        self.storage = Storage(redis, prefix)
        self.runs = self.storage.runs
        self.runner = Decided(self.settings)
        self.github = GitHubApp(self.settings, pause=0.001)
        self.work = SolveIssue(self.settings, self.github, Mirrors(data), self.runner)
        self.stack = AsyncExitStack()
        self.effects: list[str] = []
        self._stop_after: int | None = None
        self._working: asyncio.Task[Run] | None = None
        hub.on_exchange = self._heard

    async def prepare(self, **files: bytes) -> tuple[Repo, Issue]:
        repo = self.hub.add_repo(
            "acme/shop", {"shop.py": SHOP, "tests/test_x.py": b"x = 1\n", **files}
        )
        self.hub.add_user("alice")
        repo.grant("alice", "write")
        issue = await self.hub.open_issue(
            repo, "total() subtracts", "It should add.", author="bob", labels=["capuchin"]
        )
        return repo, issue

    async def lease(self, repo: Repo, issue: Issue, *, asked_by: str = "alice") -> Lease:
        """The lease of a new run of the issue."""
        return await self.lease_by(repo, issue, f"d{len(self.effects)}", asked_by=asked_by)

    async def lease_by(
        self, repo: Repo, issue: Issue, delivery: str, *, asked_by: str = "alice"
    ) -> Lease:
        """The lease of the run that a delivery asks for."""
        asked = await self.runs.create(
            ref_of(repo), issue.number, asked_by=asked_by, delivery=delivery
        )
        return await self.taken(asked.run_id)

    async def taken(self, run_id: str) -> Lease:
        lease = await Lease.acquire(self.storage, run_id, worker="w", seconds=20)
        assert lease is not None
        return lease

    async def do(self, lease: Lease) -> Run:
        """Work on a run to its end, and let go of it."""
        run = await self.work(lease.run, lease)
        await lease.finish(run)
        return run

    async def do_patiently(self, lease: Lease) -> Run:
        """As `do`, starting again where the work asks for that."""
        for _ in range(3):
            try:
                return await self.do(lease)
            except TryLater:
                await lease.release(lease.run)
                lease = await self.taken(lease.run.id)
        raise AssertionError("it never ended")

    async def die_after(self, effect: int, lease: Lease, work: HandleRun | None = None) -> Lease:
        """Work until the hub has answered the `effect`th effect, and die before hearing of it.

        The lease is another worker's then, who knows what was saved and nothing else.
        """
        self._stop_after = len(self.effects) + effect
        self._working = asyncio.create_task(_awaited(work or self.work, lease))
        await asyncio.wait([self._working])
        assert self._working.cancelled()
        self._stop_after = None
        await lease.release(lease.run)
        return await self.taken(lease.run.id)

    def _heard(self, exchange: Exchange) -> None:
        ours = exchange.path.endswith("/access_tokens") or exchange.method == "GET"
        if ours or exchange.path.endswith("git-upload-pack"):
            return
        self.effects.append(f"{exchange.method} {exchange.path.rpartition('/')[2]}")
        if len(self.effects) == self._stop_after and self._working:
            self._working.cancel()
