"""The server and a worker in one process, all real but the pipeline, whose answer the test holds.

A run is under way until the test lets it go on, so that what people do meanwhile can be staged.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path

from redis.asyncio import Redis

from bot.commands.dispatch import VERBS, CommandDispatcher
from bot.followup.run import FollowUpRun, dispatch_by_mode
from bot.git.mirrors import Mirrors
from bot.github.app import GitHubApp
from bot.localhub import Comment, Issue, LocalHub, Repo
from bot.localhub.serve import serve_app
from bot.localhub.state import Pull
from bot.queue.attempt import StopHandler
from bot.queue.missed_webhooks import MissedEvent, find_missed_events
from bot.queue.sweep import FindMissedEvents
from bot.runner.types import Job, OnProgress, Outcome, PlanOutcome, SolveOutcome
from bot.server.app import create_app
from bot.settings import Settings
from bot.solve_issue import SolveIssue
from bot.storage.cursors import Cursors
from bot.storage.draining import InFlightWork
from bot.storage.storage import Storage
from bot.triggers.decide import BotNames
from bot.types import RepoRef, Run, now
from bot.worker import Worker
from pipeline.models.wrappers.metered import Meter
from pipeline.solve import OUTCOME_KEY, SolveResult
from pipeline.store import Store
from pipeline.types import TestScript, Usage
from pipeline.workflows.plan import CostEstimate, Plan
from sandbox.base import Ending, Execution, Sandbox
from tests.e2e.publishing.test_use_crash_safety import Passing
from tests.e2e.single_run_harness import Decided
from tests.support.data.publishing import ACCOUNTS, SHOP
from tests.support.hub import ref_of, settings_for
from tests.support.phone_readability import find_unreadable

SECONDS = 120
"""Longer than anything here takes."""
PLAN = Plan(
    files=("shop.py",),
    script=TestScript(text="raise SystemExit(2)\n"),
    run=Execution(exit_code=2, output="total(1, 2) is -1", seconds=0.1, ending=Ending.EXIT),
    estimate=CostEstimate(dollars=1.5, most=4),
)


class Held(Decided):
    """Pays for a first call, then answers when it is let."""

    def __init__(self, settings: Settings) -> None:
        super().__init__(settings)
        self.go_on = asyncio.Event()
        self.go_on.set()
        self.waiting = False
        """One is under way."""
        self.cut = 0
        """How many were cancelled before they could answer."""

    async def solve(
        self, job: Job, store: Store, *, in_flight: InFlightWork, on_progress: OnProgress
    ) -> SolveOutcome:
        await self._held(job, store)
        outcome = await super().solve(job, store, in_flight=in_flight, on_progress=on_progress)
        await store.save(OUTCOME_KEY, SolveResult(result=outcome.result))
        return outcome

    @asynccontextmanager
    async def open_sandbox(
        self, job: Job, on_progress: OnProgress
    ) -> AsyncGenerator[tuple[str, Sandbox]]:
        yield "image", Passing()

    async def plan(
        self, job: Job, store: Store, *, in_flight: InFlightWork, on_progress: OnProgress
    ) -> PlanOutcome:
        self.jobs.append(job)
        await self._held(job, store)
        return Outcome(PLAN, ACCOUNTS)

    async def _held(self, job: Job, store: Store) -> None:
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


class Crew:
    """The bot at work on a hub, and verbs to act on it."""

    def __init__(self, hub: LocalHub, redis: Redis, settings: Settings, data: Path) -> None:
        self.hub = hub
        self.settings = settings
        self.redis = redis
        self.storage = Storage(redis, settings.redis_prefix)
        self.runs = self.storage.runs
        self.inbox = self.storage.requests
        self.runner = Held(settings)
        self.github = GitHubApp(settings, pause=0.001)
        self.solve = SolveIssue(settings, self.github, Mirrors(data), self.runner)
        self.tend = FollowUpRun(settings, self.github, Mirrors(data), self.runner)

    @classmethod
    @asynccontextmanager
    async def up(
        cls, hub: LocalHub, redis: Redis, data: Path, **fields: object
    ) -> AsyncGenerator[Crew]:
        settings = settings_for(hub, data_dir=str(data), sweep_seconds=0.2, **fields)
        async with serve_app(create_app(settings), "127.0.0.1", 0) as server:
            hub.webhook_url = f"{server}/webhook"
            yield cls(hub, redis, settings, data)
            hub.webhook_url = None
            assert find_unreadable(hub) == {}
            assert [d for d in hub.deliveries if d.status is None or d.status >= 300] == []

    def worker(self, find: FindMissedEvents | None = None) -> Worker:
        tell = dispatch_by_mode(self.solve.finisher.report_stop, self.tend.give_up)
        return Worker(
            self.settings,
            handle=dispatch_by_mode(self.solve, self.tend),
            give_up=dispatch_by_mode(self.solve.give_up, self.tend.give_up),
            stop_handler=StopHandler(self.solve.finisher.is_still_valid, tell),
            execute=CommandDispatcher(self.settings, self.github, VERBS),
            find_missed=find,
        )

    @asynccontextmanager
    async def at_work(self, *, sweeping: bool = False) -> AsyncGenerator[None]:
        """A worker runs in the block, and all that was asked for is done at its end."""
        worker = self.worker(self.find if sweeping else None)
        task = asyncio.create_task(worker.run())
        try:
            yield
            await self.until(self._quiet)
        finally:
            self.runner.go_on.set()
            worker.stop()
            await task

    def find(self, cursors: Cursors) -> AsyncIterator[MissedEvent]:
        return find_missed_events(self.github, BotNames.of(self.settings), cursors)

    def ref(self, issue: Issue) -> RepoRef:
        return ref_of(issue.repo)

    async def settle(self) -> None:
        """All that was asked for is done."""
        await self.worker().settle(SECONDS)

    async def until(self, true: Callable[[], object]) -> None:
        """Wait until `true()`; it may be a coroutine function."""
        async with asyncio.timeout(SECONDS):
            while True:
                found = true()
                if await found if asyncio.iscoroutine(found) else found:
                    return
                await asyncio.sleep(0.02)

    async def _quiet(self) -> bool:
        return not await self.runs.list_active() and not await self.inbox.count()

    def shop(
        self, name: str = "acme/shop", config: str = "", *, private: bool = False, **more: str
    ) -> Repo:
        """A repository that alice may write to and tina may triage."""
        files: dict[str, str | bytes] = {"shop.py": SHOP, "tests/test_x.py": "x = 1\n"}
        files |= more
        if config:
            files[".github/capuchin.yml"] = config
        repo = self.hub.add_repo(name, files, private=private)
        for login, role in (("alice", "write"), ("tina", "triage")):
            self.hub.add_user(login)
            repo.grant(login, role)
        return repo

    async def issue(self, repo: Repo) -> Issue:
        return await self.hub.open_issue(repo, "total() subtracts", "It should add.", author="bob")

    async def label(self, issue: Issue, by: str = "alice", suffix: str = "") -> None:
        await self.hub.add_label(issue, self.settings.label + suffix, by)

    async def say(self, issue: Issue, text: str, by: str = "alice") -> Comment:
        return await self.hub.comment(issue, text, by)

    async def run_of(self, issue: Issue) -> Run:
        """The latest run."""
        run = await self.runs.get_latest(ref_of(issue.repo), issue.number)
        assert run is not None
        return run

    async def hurried(self, pull: Pull) -> bool:
        """Have what waits for a moment done at once; True once nothing is left of it."""
        run = await self.runs.get_current(ref_of(pull.repo), pull.number)
        if run is not None:
            await self.runs.bring_forward(run, now())
        return run is None and not await self.inbox.count()

    def said(self, issue: Issue) -> list[str]:
        """What we wrote on the issue."""
        return [c.body for c in issue.comments if c.author is self.hub.bot]


def faces(comment: Comment) -> list[str]:
    return [reaction.content for reaction in comment.reactions]
