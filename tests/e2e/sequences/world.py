"""The bot in one process, moved by hand: webhooks, workers, commands and sweeps come when told to.

All is real but the pipeline, whose answer is decided, and the socket between bot and hub. Time
passes as the sequence says.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager, suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Final, NamedTuple
from uuid import uuid4

import httpx
import time_machine
from redis.asyncio import Redis

from bot.attempt import Attempt, Stopping
from bot.clerk import Clerk, Office
from bot.commands.desk import VERBS, Desk
from bot.cursors import Cursors
from bot.errors import TryLater
from bot.github.facts import Cursor
from bot.inbox import Inbox, Item
from bot.labelled import find_labelled
from bot.lease import Lease
from bot.localhub import Exchange, Issue, LocalHub, Repo
from bot.localhub.faults import Faults, RateLimit
from bot.localhub.state import Pull
from bot.localhub.webhooks import Delivery
from bot.queue import Nudges
from bot.redis_client import Outage
from bot.runs import Runs
from bot.server import create_app
from bot.settings import Settings
from bot.solve_issue import SolveIssue
from bot.sweep import Sweep
from bot.tend.record import Records
from bot.tend.work import TendPull, by_mode
from bot.triggers import Names
from bot.types import Run, now
from pipeline.types import NoFix
from tests.e2e.sequences.direct import KeptMirrors, NearApp
from tests.e2e.sequences.gated import Gated
from tests.e2e.sequences.plan import ISSUES
from tests.hub import ref_of, settings_for
from tests.unit.bot_publish.samples import SHOP, a_selection

LONG: Final = 3600.0
"""Seconds of a lease: it ends when the sequence says so."""
ASK_SECONDS: Final = 0.03
"""How often a run is asked whether it is to stop; the sequence waits for the answer."""
START: Final = datetime(2026, 5, 1, 8, tzinfo=UTC)
REPOS: Final = ("acme/shop", "globex/shop")
"""Two installations."""


class AtWork(NamedTuple):
    """A worker that has a run."""

    lease: Lease
    task: asyncio.Task[None]


MOST_LEFT: Final = 100
"""Requests that a limit leaves us, at most."""


class World:
    """The hub, the bot and what is under way; `issues` are those of the present sequence."""

    def __init__(self, hub: LocalHub, redis: Redis, settings: Settings, data: Path) -> None:
        self.hub = hub
        self.settings = settings
        self.redis = redis
        self.runs = Runs(redis, settings.redis_prefix)
        self.inbox = Inbox(redis, self.runs.keys)
        self.workshop = Gated(settings)
        self.github = NearApp(settings, hub)
        self.mirrors = KeptMirrors(data)
        self.solve = SolveIssue(settings, self.github, self.mirrors, self.workshop)
        tend = TendPull(settings, self.github, self.mirrors, self.workshop)
        self.work = by_mode(self.solve, tend)
        self.give_up = by_mode(self.solve.give_up, tend.give_up)
        ending = self.solve.ending
        self.stopping = Stopping(ending.holds, by_mode(ending.stopped, tend.give_up))
        nudges = Nudges(redis, self.runs.keys)
        self.office = Office(self.runs, nudges)
        outage = Outage()
        desk = Desk(settings, self.github, VERBS)
        self.clerk = Clerk(self.inbox, self.office, desk, settings, outage)
        self._sweep = Sweep(self.runs, nudges, settings, None, None, None, outage)
        self.records = Records(redis, self.runs.keys)
        self.repos = [self._shop(name) for name in REPOS]
        self._seeds = [repo.git.refs()["heads/main"] for repo in self.repos]
        self.issues: list[Issue] = []
        self.merged: set[str] = set()
        """Repositories whose default branch has moved."""
        self.at_work: dict[str, AtWork] = {}
        self.pending: list[Delivery] = []
        self.delivered: list[Delivery] = []
        self.faults: list[str] = []
        """What was seen on the way and must not be."""
        self._heard = 0
        self._dies_after: int | None = None
        self._victim: asyncio.Task[None] | None = None
        hub.on_exchange = self._exchanged
        self._clock: time_machine.Traveller
        self._server: httpx.AsyncClient

    @classmethod
    @asynccontextmanager
    async def up(
        cls, hub: LocalHub, redis: Redis, redis_url: str, data: Path
    ) -> AsyncGenerator[World]:
        with time_machine.travel(START, tick=True) as clock:
            async with hub.serve():
                settings = settings_for(
                    hub,
                    data_dir=str(data),
                    redis_url=redis_url,
                    redis_prefix=f"sequences-{uuid4().hex[:8]}:",
                    quota_person=0,
                    quota_repository=0,
                    quota_installation=0,
                    review_seconds=5,
                    reverify_seconds=30,
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
                    yield world

    def _shop(self, name: str) -> Repo:
        repo = self.hub.add_repo(name, {"shop.py": SHOP, "tests/test_x.py": "x = 1\n"})
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
        await self._forgotten()
        no_fix = NoFix(reason="no reproduction", learnt=())
        self.workshop.answer = a_selection() if fixes else no_fix
        self.issues = [
            await self.hub.open_issue(
                self.repos[each % len(self.repos)], "total() subtracts", "Add.", author="bob"
            )
            for each in range(ISSUES)
        ]
        self.collect()

    async def _forgotten(self) -> None:
        """Of the sequence before: its pull requests, its merges, who has the App."""
        keys = self.runs.keys
        await self.redis.delete(keys.ended, keys.pulls_due)
        for repo, seed in zip(self.repos, self._seeds, strict=True):
            if repo.installation is None:
                self.hub.select(repo)
                await self._caught_up(repo)
            await self.redis.delete(keys.pulls(ref_of(repo)))
            for pull in repo.pulls:
                pull.state = "closed"
            if repo.full_name in self.merged:
                repo.git.point("refs/heads/main", seed)
        if self.merged:
            self.mirrors.moved()
        self.merged.clear()

    async def _caught_up(self, repo: Repo) -> None:
        """What was asked for while the App was away is none of the next sequence's."""
        since = now().replace(microsecond=0)
        seen = Cursor(since=since, comments_since=since, lines_since=since)
        await Cursors(self.redis, self.runs.keys).set(ref_of(repo), seen)

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
                for run in await self.idle():
                    await self.begin(run)
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
        await self._stopped()

    async def begin(self, run: Run) -> None:
        """A worker takes the run up; it works until the pipeline is to answer."""
        lease = await self.runs.acquire(run.id, worker=uuid4().hex, seconds=LONG)
        if lease is None:
            return
        others = [each.lease.run for each in self.at_work.values()]
        if any((o.repo, o.issue) == (run.repo, run.issue) for o in others):
            self.faults.append(f"two runs of #{run.issue} at once")
        attempt = Attempt(
            lease,
            self.runs,
            work=self.work,
            give_up=self.give_up,
            patience_seconds=self.settings.patience_seconds,
            stopping=self.stopping,
            ask_seconds=ASK_SECONDS,
        )
        self.workshop.came.clear()
        task = asyncio.create_task(attempt.go())
        self.at_work[run.id] = AtWork(lease, task)
        await self._until_quiet(run.id)

    async def idle(self) -> list[Run]:
        return sorted([run async for run in self.runs.idle()], key=lambda run: run.created_at)

    async def finish(self, run_id: str) -> None:
        """The pipeline answers; the worker ends."""
        self.workshop.gates[run_id].set()
        await self._ended(run_id)

    async def kill(self, run_id: str) -> None:
        """The worker is gone, as its machine is; its lease runs out."""
        at_work = self.at_work[run_id]
        at_work.lease.lost = True  # so that it hands nothing back
        at_work.task.cancel()
        await self._ended(run_id)
        await self.redis.delete(self.runs.keys.lease(run_id))

    async def hand_over(self, run_id: str) -> None:
        """The worker is told to end, as by a deploy."""
        self.at_work[run_id].task.cancel()
        await self._ended(run_id)

    async def begin_and_die(self, run: Run, effect: int) -> None:
        """A worker that dies as soon as GitHub has answered its `effect`th effect."""
        self._dies_after = effect
        await self.begin(run)
        if run.id in self.workshop.gates:
            await self.finish(run.id)
        self._dies_after = None
        await self.redis.delete(self.runs.keys.lease(run.id))

    async def command(self, dies_after: int | None = None) -> None:
        """Carry out the command whose turn it is, as far as its clerk lives."""
        for order in await self.redis.zrange(self.runs.keys.orders, 0, -1):
            await self.redis.zadd(self.runs.keys.orders, {order: 0}, xx=True)
        item = await self.inbox.take()
        if item is not None:
            await self._carried_out(item, dies_after)
            await self._stopped()

    async def sweep(self) -> None:
        """Look for what no webhook told."""
        with suppress(TryLater):  # as the worker does; the next look finds the rest
            await self._sweep.look(self._find)
        await self._stopped()

    async def look_after(self) -> None:
        """The time has come for all our pull requests to be looked after."""
        for member in await self.redis.zrange(self.runs.keys.pulls_due, 0, -1):
            await self.redis.zadd(self.runs.keys.pulls_due, {member: 0})
        await self._sweep.look_after()

    async def _carried_out(self, item: Item, dies_after: int | None) -> None:
        task = asyncio.create_task(self.clerk.do(item))
        self._dies_after, self._victim = dies_after, task
        await asyncio.wait([task])
        self._dies_after = self._victim = None

    def _find(self, cursors: Cursors):
        return find_labelled(self.github, Names.of(self.settings), cursors)

    async def _until_quiet(self, run_id: str) -> None:
        """The worker waits for the pipeline, or has ended."""
        task = self.at_work[run_id].task
        came = asyncio.create_task(self.workshop.came.wait())
        self._victim = task
        await asyncio.wait([task, came], return_when=asyncio.FIRST_COMPLETED)
        came.cancel()
        if task.done():
            await self._ended(run_id)

    async def _ended(self, run_id: str) -> None:
        task = self.at_work.pop(run_id).task
        self._victim = task
        await asyncio.wait([task])
        self._victim = None
        if not task.cancelled() and (error := task.exception()) is not None:
            raise error

    async def _stopped(self) -> None:
        """What was asked to stop has heard of it."""
        for run_id, at_work in list(self.at_work.items()):
            if at_work.lease.run.told:  # too late for it
                continue
            while not at_work.task.done() and await self.runs.stop_of(run_id):
                await asyncio.sleep(0.005)
            if at_work.task.done():
                await self._ended(run_id)

    def _exchanged(self, exchange: Exchange) -> None:
        read = exchange.method == "GET" or exchange.path.endswith(("/access_tokens", "upload-pack"))
        if read or self._dies_after is None:
            return
        self._dies_after -= 1
        if self._dies_after == 0 and self._victim is not None:
            with suppress(StopIteration):
                victim = next(w for w in self.at_work.values() if w.task is self._victim)
                victim.lease.lost = True
            self._victim.cancel()

    async def ended(self) -> list[Run]:
        """The runs of this sequence that are over, by when they were asked for."""
        ids = await self.redis.zrange(self.runs.keys.ended, 0, -1)
        runs = [await self.runs.get(run_id.decode()) for run_id in ids]
        numbers = {(issue.repo.full_name, issue.number) for issue in self.issues}
        found = [r for r in runs if r is not None and (r.repo.full_name, r.issue) in numbers]
        return sorted(found, key=lambda run: run.created_at)
