"""The running bot and verbs to act on it; all real but GitHub and the model, which hold state."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path

from redis.asyncio import Redis

from bot.bootstrap import build_worker
from bot.localhub import Issue, LocalHub, Repo
from bot.localhub.serve import serve_app
from bot.recorded.recording import Recording
from bot.recorded.server import RecordedServer
from bot.server.app import create_app
from bot.settings import Settings
from bot.storage.checkpoints import RedisStore
from bot.storage.storage import Storage
from bot.types import RepoRef, Run
from sandbox.docker.client import connect
from tests.e2e import shop
from tests.support.docker import containers_of
from tests.support.hub import ref_of, settings_for
from tests.support.phone_readability import find_unreadable

MAINTAINER, REPORTER = "alice", "bob"
SECONDS = 120
"""Longer than any run here takes, so that a run that hangs fails its test."""


class BotHarness:
    """A server and, while something settles, a worker; built from `Settings` as in production."""

    def __init__(
        self, hub: LocalHub, llm: RecordedServer, settings: Settings, redis: Redis
    ) -> None:
        self.hub = hub
        self.llm = llm
        self.settings = settings
        self.storage = Storage(redis, settings.redis_prefix)
        self.runs = self.storage.runs
        self._seen: list[Run] = []

    @classmethod
    @asynccontextmanager
    async def standing(
        cls, hub: LocalHub, redis: Redis, recording: Recording, **fields: object
    ) -> AsyncGenerator[BotHarness]:
        """The bot, up; its end proves that nothing is left running and nothing was unexpected."""
        llm = RecordedServer(recording)
        async with AsyncExitStack() as stack:
            url = await stack.enter_async_context(llm.serve())
            usual = {
                "solver_model": "anthropic:recorded-claude-sonnet-4-6",
                "anthropic_api_key": "recorded",
                "anthropic_base_url": url,
                "sweep_seconds": 0.2,
            }
            settings = settings_for(hub, **{**usual, **fields})
            app = create_app(settings)
            server = await stack.enter_async_context(serve_app(app, "127.0.0.1", 0))
            hub.webhook_url = f"{server}/webhook"
            bot = cls(hub, llm, settings, redis)
            yield bot
            hub.webhook_url = None
            await bot._assert_quiet()

    def add_repo(
        self, name: str = "acme/shop", files: Mapping[str, str | bytes] | None = None
    ) -> Repo:
        """A repository that the App is installed on, with one person who may write to it."""
        repo = self.hub.add_repo(name, shop.FILES if files is None else files)
        self.hub.add_user(MAINTAINER)
        repo.grant(MAINTAINER, "write")
        return repo

    async def open_issue(
        self, repo: Repo, title: str = shop.TITLE, body: str = shop.BODY, *, label: bool = True
    ) -> Issue:
        """A stranger reports it; the maintainer labels it."""
        issue = await self.hub.open_issue(repo, title, body, author=REPORTER)
        if label:
            await self.label(issue)
        return issue

    async def label(self, issue: Issue, by: str = MAINTAINER) -> None:
        await self.hub.add_label(issue, self.settings.label, by)

    async def settle(self) -> None:
        """A worker takes up what is to be done, and leaves when all of it is."""
        async with build_worker(self.settings) as worker:
            await worker.settle(SECONDS)

    async def run_of(self, issue: Issue) -> Run:
        """The issue's latest run."""
        run = await self.runs.get_latest(ref_of(issue.repo), issue.number)
        assert run is not None
        self._seen.append(run)
        return run

    def store_of(self, run: Run) -> RedisStore:
        """Its checkpoints."""
        return self.storage.checkpoints(run.id)

    async def solved(self, issue: Issue) -> Run:
        """Settle; the issue's run as it ended."""
        return await self.solved_as(ref_of(issue.repo), issue.number)

    async def solved_as(self, repo: RepoRef, issue: int) -> Run:
        """As `solved`, for a repository that may be gone by now."""
        await self.settle()
        run = await self.runs.get_latest(repo, issue)
        assert run is not None
        self._seen.append(run)
        return run

    def only_pull_request(self, repo: Repo) -> tuple[str, str]:
        """The branch and the body of the one pull request there is."""
        (pull,) = repo.pulls
        return pull.head_ref, pull.body or ""

    async def _assert_quiet(self) -> None:
        assert await self.runs.list_active() == []
        for run in self._seen:
            assert not await self.storage.redis.exists(self.storage.keys.lease(run.id))
        assert self.llm.unexpected == []
        assert find_unreadable(self.hub) == {}
        assert [d for d in self.hub.deliveries if d.status is None or d.status >= 300] == []
        self._assert_no_containers()

    def _assert_no_containers(self) -> None:
        daemon = connect(None)
        try:
            assert all(containers_of(daemon, run.id) == [] for run in self._seen)
        finally:
            daemon.close()


def host_certificates() -> str:
    """For installing packages on networks with an authority of their own; empty for none."""
    bundle = Path("/etc/ssl/certs/ca-certificates.crt")
    return str(bundle) if bundle.is_file() else ""
