"""The bot in one process, moved by hand: webhooks, workers, commands and sweeps come when told to.

All is real but the pipeline, whose answer is decided, and the socket between bot and hub. Time
passes as the sequence says.
"""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager, suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Final
from uuid import uuid4

import httpx
import time_machine
from redis.asyncio import Redis

from bot.bootstrap import assemble
from bot.data.github_facts import Cursor
from bot.data.run import Run, now
from bot.errors import TryLater
from bot.queue.jobs import RunQueue
from bot.server.app import create_app
from bot.settings import Settings
from bot.storage.storage import Storage
from capuchin_demo.hub.state import Issue, Pull, Repo
from capuchin_demo.hub.webhooks import Delivery
from pipeline.data.types import NoFix
from tests.e2e.deaths import Deaths
from tests.e2e.runners import GatedRunner
from tests.e2e.sequences.cached_git import CachedRepo
from tests.e2e.sequences.in_process_github import KeptMirrors, NearApp
from tests.e2e.sequences.logged_bugs import Bugs
from tests.e2e.sequences.plan import ISSUES
from tests.e2e.sequences.workers import Workers
from tests.support.data.publishing import SHOP, a_selection
from tests.support.github.faults import Faults, RateLimit
from tests.support.github.hub import LocalHub
from tests.support.hub import ref_of, settings_for

START: Final = datetime(2026, 5, 1, 8, tzinfo=UTC)
REPOS: Final = ("acme/shop", "globex/shop")
"""Two installations."""
MOST_LEFT: Final = 100
"""Requests that a limit leaves us, at most."""


class World:
    """The hub, the bot and what is under way; `issues` are those of the present sequence."""

    def __init__(self, hub: LocalHub, redis: Redis, settings: Settings, data: Path) -> None:
        self.hub = hub
        self.settings = settings
        self.redis = redis
        self.storage = Storage(redis, settings.redis_prefix)
        self.runs = self.storage.runs
        self.runner = GatedRunner(settings)
        self.github = NearApp(settings, hub)
        self.mirrors = KeptMirrors(data)
        self.bugs = Bugs()
        self.deaths = Deaths(hub)
        self.bot = assemble(settings, self.runner, github=self.github, mirrors=self.mirrors)
        worker = self.bot.build_worker()
        self.workers = Workers(worker, self.storage, self.runner, self.deaths)
        self.inbox = RunQueue(self.storage)
        self._jobs = worker.build_job_worker(self.inbox).arq
        self._sweep = worker.build_sweep(self.inbox)
        self.records = self.storage.pulls
        self.repos = [self._shop(name) for name in REPOS]
        self._seeds = [repo.git.list_refs()["heads/main"] for repo in self.repos]
        self.issues: list[Issue] = []
        self.gone: list[Issue] = []
        """Deleted or transferred, in this sequence or before: people are refused once a day."""
        self.merged: set[str] = set()
        """Repositories whose default branch has moved."""
        self.pending: list[Delivery] = []
        self.delivered: list[Delivery] = []
        self.faults: list[str] = []
        """What was seen on the way and must not be."""
        self._heard = 0
        self._clock: time_machine.Traveller
        self._server: httpx.AsyncClient

    @classmethod
    @asynccontextmanager
    async def up(
        cls, hub: LocalHub, redis: Redis, redis_url: str, data: Path
    ) -> "AsyncGenerator[World]":
        with time_machine.travel(START, tick=True) as clock:
            async with hub.serve():
                settings = settings_for(
                    hub,
                    data_dir=str(data),
                    redis_url=redis_url,
                    redis_prefix=f"sequences-{uuid4().hex[:8]}:",
                    quota_person=0,
                    review_seconds=5,
                    reverify_seconds=30,
                    missed_seconds=0.2,
                    # Redis's clock does not move with ours: all sequences are in one hour.
                    hourly_writes=1_000_000,
                )
                world = cls(hub, redis, settings, data)
                world._clock = clock
                app = create_app(settings)
                async with (
                    app.router.lifespan_context(app),
                    httpx.AsyncClient(
                        transport=httpx.ASGITransport(app), base_url="http://bot"
                    ) as world._server,
                ):
                    with world.bugs.noted():
                        yield world

    def _shop(self, name: str) -> Repo:
        repo = self.hub.add_repo(name, {"shop.py": SHOP, "tests/test_x.py": "x = 1\n"})
        repo.git = CachedRepo(repo.git.path)
        for login, role in (("alice", "write"), ("tina", "triage")):
            self.hub.add_user(login)
            repo.grant(login, role)
        return repo

    async def fresh(self, *, fixes: bool) -> None:
        """Issues of their own for a sequence; nothing of the one before is under way."""
        self.hub.faults = Faults()
        self.hub.limit = RateLimit()
        self.hub.deliveries.clear()
        self.hub.requests.clear()
        self._heard = 0
        self.pending, self.delivered, self.faults = [], [], []
        self.workers.faults.clear()
        self.bugs.found.clear()
        await self._forgotten()
        no_fix = NoFix(reason="no reproduction", details=())
        self.runner.answer = a_selection() if fixes else no_fix
        self.issues = [
            await self.hub.open_issue(
                self.repos[each % len(self.repos)], "total() subtracts", "Add.", author="bob"
            )
            for each in range(ISSUES)
        ]
        self.collect()

    async def _forgotten(self) -> None:
        """Of the sequence before: its pull requests, its merges, who has the App."""
        keys = self.storage.keys
        await self.redis.delete(keys.ended, keys.pulls_due)
        for repo, seed in zip(self.repos, self._seeds, strict=True):
            if repo.installation is None:
                self.hub.add_to_installation(repo)
                await self._caught_up(repo)
            await self.redis.delete(
                keys.pulls(ref_of(repo).id), f"{keys.writes(ref_of(repo).installation)}:blocked"
            )
            for pull in repo.pulls:
                pull.state = "closed"
            if repo.full_name in self.merged:
                repo.git.set_ref("refs/heads/main", seed)
        if self.merged:
            self.mirrors.moved()
        self.merged.clear()

    async def _caught_up(self, repo: Repo) -> None:
        """Drop what was asked for while the App was away, before the next sequence."""
        since = now().replace(microsecond=0)
        seen = Cursor(since=since, comments_since=since, lines_since=since)
        await self.storage.cursors.set(ref_of(repo), seen)

    @property
    def pulls(self) -> list[Pull]:
        """Ours, of this sequence, oldest first."""
        first = {id(i.repo): i.number for i in reversed(self.issues)}
        return [
            pull
            for repo in self.repos
            for pull in repo.pulls
            if pull.author is self.hub.bot and pull.number > first[id(repo)]
        ]

    def passes(self, seconds: float) -> None:
        """Time."""
        self._clock.shift(seconds)

    async def away_for(self, seconds: float) -> None:
        """If GitHub is away or limits us, workers and sweeps meet that so long; then it is over."""
        if self.hub.faults.down or self.hub.limit.remaining <= MOST_LEFT:
            for _ in range(3):
                self.passes(seconds / 3)
                await self.sweep()
                await self.command()
                for run in await self.workers.idle():
                    await self.workers.begin(run)
        self.hub.faults.down = False

    def collect(self) -> None:
        """Take what GitHub has sent meanwhile for under way."""
        self.pending += self.hub.deliveries[self._heard :]
        self._heard = len(self.hub.deliveries)

    async def deliver(self, delivery: Delivery) -> None:
        answer = await self._server.post(
            "/webhook", content=delivery.body, headers=delivery.headers
        )
        if answer.status_code not in (200, 202, 204):
            self.faults.append(f"{delivery.event} was answered {answer.status_code}")
        await self.workers.stopped()

    async def command(self, dies_after: int | None = None) -> None:
        """Carry out the command whose turn it is, as far as its clerk lives."""
        requests = self.storage.keys.request("").encode()
        for job, at in await self.redis.zrange(self.storage.keys.queue, 0, -1, withscores=True):
            if job.startswith(requests):
                await self._carried_out(job.decode(), int(at), dies_after)
                await self.workers.stopped()
                return

    async def sweep(self) -> bool:
        """Look for what no webhook told; returns whether all was seen."""
        saw_all = False
        with suppress(TryLater):  # as the worker does
            await self._sweep.recover(self.bot.find_missed)
            saw_all = True
        await self.workers.stopped()
        return saw_all

    async def look_after(self) -> None:
        """The time has come for all our pull requests to be looked after."""
        for member in await self.redis.zrange(self.storage.keys.pulls_due, 0, -1):
            await self.redis.zadd(self.storage.keys.pulls_due, {member: 0})
        await self._sweep.start_follow_ups()

    async def _carried_out(self, job: str, at: int, dies_after: int | None) -> None:
        task = asyncio.create_task(self._jobs.run_job(job, at))
        with self.deaths.after(dies_after or 0, task.cancel):  # 0: never
            await asyncio.wait([task])

    async def ended(self) -> list[Run]:
        """The runs of this sequence that are over, by when they were asked for."""
        ids = await self.redis.zrange(self.storage.keys.ended, 0, -1)
        runs = [await self.runs.get(run_id.decode()) for run_id in ids]
        numbers = {(issue.repo.full_name, issue.number) for issue in self.issues}
        found = [r for r in runs if r is not None and (r.repo.full_name, r.issue) in numbers]
        return sorted(found, key=lambda run: run.created_at)
