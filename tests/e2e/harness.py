"""The bot and verbs to act on it; all real but GitHub and the model or the pipeline."""

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager

from redis.asyncio import Redis

from bot.bootstrap import Bot, assemble, open_bot
from bot.data.run import Login, RepoRef, Run, RunId, now
from bot.errors import TryLater
from bot.github.app import GitHubApp
from bot.queue.jobs import RunQueue
from bot.server.app import create_app
from bot.server.connections import serve_app
from bot.settings import Settings
from bot.storage.checkpoints import RedisStore
from bot.storage.lease import Lease
from bot.storage.storage import Storage
from capuchin_demo.hub.state import Comment, Issue, Pull, Repo, Review
from capuchin_demo.recorded.recording import Recording
from capuchin_demo.recorded.server import RecordedServer
from pipeline.models.wrappers import RETRY_WAITS
from sandbox.docker.docker_client import connect
from tests.e2e import shop
from tests.e2e.deaths import Deaths
from tests.e2e.people import MAINTAINER, REPORTER, SMALL_SHOP, People
from tests.e2e.runners import FakeRunner
from tests.support.docker import containers_of
from tests.support.github.hub import LocalHub
from tests.support.handlers import HandleRun
from tests.support.hub import ref_of, settings_for
from tests.support.phone_readability import find_unreadable
from tests.support.settling import Pauses, settle

SECONDS = 600
"""Longer than any run takes on a busy machine: only a run that hangs reaches it."""
REMOVAL_SECONDS = 120


class BotHarness(People):
    """The bot on a hub, built from `Settings` as in production.

    With a recording (`llm`) the real pipeline works; otherwise `runner` answers. A worker runs
    only inside `settle` and `working`.
    """

    def __init__(
        self,
        hub: LocalHub,
        redis: Redis,
        settings: Settings,
        *,
        llm: RecordedServer | None = None,
        saves: bool = False,
    ) -> None:
        super().__init__(hub, settings, llm)
        self.redis = redis
        self.storage = Storage(redis, settings.redis_prefix)
        self.runs = self.storage.runs
        self.inbox = RunQueue(self.storage)
        self.runner = FakeRunner(settings, saves=saves)
        self.parts: Bot = assemble(settings, self.runner, github=GitHubApp(settings, pause=0.001))
        """The bot around `runner`."""
        self.quiet = True
        """Whether the end proves that nothing is left to do."""
        self._deaths = Deaths(hub)
        self._seen: list[Run] = []

    @classmethod
    @asynccontextmanager
    async def start(
        cls,
        hub: LocalHub,
        redis: Redis,
        fields: Mapping[str, object],
        *,
        recording: Recording | None = None,
        saves: bool = True,
    ) -> "AsyncGenerator[BotHarness]":
        """The bot with its server and settings `fields`; the end proves that nothing is wrong.

        Without a `recording` a `FakeRunner` answers, which `saves`.
        """
        async with AsyncExitStack() as stack:
            llm = None
            if recording is not None:
                llm = RecordedServer(recording)
                url = await stack.enter_async_context(llm.serve())
                fields = {**_recorded_models(url), **fields}
            settings = settings_for(hub, **{"sweep_seconds": 0.2, **fields})
            server = await stack.enter_async_context(
                serve_app(create_app(settings), "127.0.0.1", 0)
            )
            hub.webhook_url = f"{server}/webhook"
            bot = cls(hub, redis, settings, llm=llm, saves=saves)
            yield bot
            await hub.wait_until_delivered()
            hub.webhook_url = None
            await bot.assert_quiet()

    def again(self) -> "BotHarness":
        """A second bot on the same hub and with the same settings."""
        return BotHarness(self.hub, self.redis, self.settings, saves=True)

    @property
    def llm(self) -> RecordedServer:
        """The service that answers from the recording."""
        assert self._llm is not None
        return self._llm

    # What the bot did

    async def run_of(self, issue: Issue) -> Run:
        """The latest run of the issue."""
        return await self.run_at(ref_of(issue.repo), issue.number)

    async def run_at(self, repo: RepoRef, issue: int) -> Run:
        """As `run_of`, for a repository that may be gone by now."""
        run = await self.runs.get_latest(repo, issue)
        assert run is not None
        self._seen.append(run)
        return run

    def store_of(self, run: Run) -> RedisStore:
        """The checkpoints of a run."""
        return self.storage.checkpoints(run.id)

    def comments_of(self, issue: Issue) -> list[str]:
        """What the bot wrote on the issue."""
        return [c.body for c in issue.comments if c.author is self.hub.bot]

    def count_writes(self) -> int:
        """How many requests changed something in a repository."""
        return len([e for e in self.hub.requests if e.method != "GET" and "/repos/" in e.path])

    def only_pull_request(self, repo: Repo) -> tuple[str, str]:
        """The branch and the body of the one pull request there is."""
        (pull,) = repo.pulls
        return pull.head_ref, pull.body or ""

    # A worker

    async def settle(self) -> None:
        """A worker does all that people have asked for, and stops."""
        async with self._open_bot() as bot:
            while True:
                try:
                    worker = bot.build_worker(find_missed=self._llm is not None)
                    await settle(worker, self.settings, SECONDS)
                except TimeoutError as late:
                    late.add_note(f"Active: {await self.runs.list_active()}")
                    raise
                if await self.is_idle():  # else a webhook that came late asked for more
                    return

    async def solve(self, issue: Issue) -> Run:
        """Settle; the run of the issue as it ended."""
        await self.settle()
        return await self.run_of(issue)

    async def ask_by_label(self, issue: Issue, by: str = MAINTAINER, suffix: str = "") -> None:
        """Label it, and settle."""
        await self.label(issue, by, suffix)
        await self.settle()

    async def say(self, issue: Issue, text: str, by: str = MAINTAINER) -> Comment:
        """Comment, and settle."""
        comment = await self.comment(issue, text, by)
        await self.settle()
        return comment

    async def receive_review(
        self, pull: Pull, by: str, *words: str, lines: Iterable[tuple[str, int, str]] = ()
    ) -> Review:
        """Review it, and settle."""
        review = await self.hub.review(pull, by, *words, lines=lines)
        await self.settle()
        return review

    @asynccontextmanager
    async def working(
        self,
        *,
        find_missed: bool = False,
        settle: bool = True,
        model_waits: Sequence[float] = RETRY_WAITS,
    ) -> AsyncGenerator[None]:
        """A worker runs in the block; with `settle` the end waits until all is done."""
        async with self._open_bot(model_waits) as bot:
            worker = bot.build_worker(find_missed=find_missed)
            task = asyncio.create_task(worker.run())
            try:
                yield
                if settle:
                    await self.until(self.is_idle)
            finally:
                self.runner.go_on.set()
                worker.stop()
                await task
        if find_missed and settle:
            await self.settle()  # what its last look has found

    @asynccontextmanager
    async def at_work(
        self, asks: Awaitable[object], *, find_missed: bool = False
    ) -> AsyncGenerator[None]:
        """In the block the run that `asks` brings is under way, and waits for `runner.go_on`."""
        self.runner.go_on.clear()
        async with self.working(find_missed=find_missed):
            await asks
            await self.until(lambda: self.runner.waiting)
            yield

    async def until(
        self, condition: Callable[[], object | Awaitable[object]], seconds: float = SECONDS
    ) -> None:
        """Wait until `condition()`, which may be a coroutine."""
        pauses = Pauses()
        async with asyncio.timeout(seconds):
            while True:
                found = condition()
                if await found if isinstance(found, Awaitable) else found:
                    return
                await pauses.pause()

    async def wait_for_end(self, run: Run) -> Run:
        """The run as it ended; by then no other run is active."""
        await self.until(lambda: self._has_no_run())
        found = await self.runs.get(run.id)
        assert found is not None
        assert found.status.final
        return found

    async def hasten(self, pull: Pull) -> bool:
        """End the pause of the run on `pull`; True once nothing is left to do, nor to be said.

        A run of the issue that has not ended, or a webhook under way, may yet begin one there.
        """
        run = await self.runs.get_current(ref_of(pull.repo), pull.number)
        if run is not None:
            await self.runs.bring_forward(run, now())
        under_way = any(delivery.status is None for delivery in self.hub.deliveries)
        return run is None and not under_way and await self.is_idle()

    async def is_idle(self) -> bool:
        """Whether no run is active, no request waits, and no webhook under way may bring one."""
        if await self._has_work():
            return False
        seen = len(self.hub.deliveries)
        await self.hub.wait_until_delivered()
        return not await self._has_work() and len(self.hub.deliveries) == seen

    # One run by hand

    @property
    def effects(self) -> list[str]:
        """See `Deaths.effects`."""
        return self._deaths.effects

    async def prepare_issue(self, **files: str | bytes) -> tuple[Repo, Issue]:
        """A repository with a labelled issue; no webhook."""
        repo = self.add_repo(files={**SMALL_SHOP, **files})
        labels = [self.settings.label]
        issue = await self.hub.open_issue(
            repo, shop.TITLE, "It should add.", author=REPORTER, labels=labels
        )
        return repo, issue

    async def lease(
        self, repo: Repo, issue: Issue, delivery: str = "", *, asked_by: str = MAINTAINER
    ) -> Lease:
        """The lease of the run that a delivery asks for; usually of a new one."""
        delivery = delivery or f"d{len(self.effects)}"
        ref = ref_of(repo)
        asked = await self.runs.create(
            ref, issue.number, asked_by=Login(asked_by), delivery=delivery
        )
        return await self.take(asked.run_id)

    async def begin_run(self, *, dies_after: int = 0) -> tuple[Repo, Issue, Lease]:
        """The lease of the run of a prepared issue, whose worker dies after so many effects."""
        repo, issue = await self.prepare_issue()
        lease = await self.lease(repo, issue)
        return repo, issue, await self.die_after(dies_after, lease) if dies_after else lease

    async def take(self, run_id: str) -> Lease:
        """The lease of a run that nobody has."""
        lease = await Lease.acquire(self.storage, RunId(run_id), worker="w", seconds=SECONDS)
        assert lease is not None
        return lease

    async def work_on(self, lease: Lease) -> Run:
        """Work on a run to its end, and release it."""
        run = await self._handle(lease.run, lease)
        await lease.finish(run)
        return run

    async def publish(self, **files: str | bytes) -> tuple[Repo, Issue, Run]:
        """Prepare an issue, and work on its run to the end."""
        repo, issue = await self.prepare_issue(**files)
        return repo, issue, await self.work_on(await self.lease(repo, issue))

    async def work_on_patiently(self, lease: Lease) -> Run:
        """As `work_on`, starting again where the handler asks for that."""
        for _ in range(3):
            try:
                return await self.work_on(lease)
            except TryLater:
                await lease.release(lease.run)
                lease = await self.take(lease.run.id)
        raise AssertionError("it never ended")

    async def die_after(self, effect: int, lease: Lease, work: HandleRun | None = None) -> Lease:
        """Work until the hub has answered the `effect`th effect, and die before its answer arrives.

        Then the lease is another worker's, who knows what was saved and nothing else.
        """

        async def handle() -> None:
            await (work or self._handle)(lease.run, lease)

        task = asyncio.create_task(handle())
        with self._deaths.after(effect, task.cancel):
            await asyncio.wait([task])
        assert task.cancelled()
        await lease.release(lease.run)
        return await self.take(lease.run.id)

    async def _handle(self, run: Run, lease: Lease) -> Run:
        return await self.parts.handlers[run.mode].handle(run, lease)

    # The end

    async def assert_quiet(self) -> None:
        """Prove that nothing is left to do, and that people can read what the bot wrote."""
        assert find_unreadable(self.hub) == {}
        assert [d for d in self.hub.deliveries if d.status is None or d.status >= 300] == []
        if self.quiet:
            assert await self.runs.list_active() == []
            assert await self.inbox.count_requests() == 0
            for run in self._seen:
                assert not await self.redis.exists(self.storage.keys.run(run.id, "lease"))
        if self._llm is not None:
            assert self._llm.unexpected == []
            await self._assert_no_containers()

    async def _assert_no_containers(self) -> None:
        """Docker may still be busy to remove what a run has ended."""
        daemon = connect(None)
        try:
            async with asyncio.timeout(REMOVAL_SECONDS):
                while any(containers_of(daemon, run.id) for run in self._seen):
                    await asyncio.sleep(0.1)
        finally:
            daemon.close()

    async def _has_no_run(self) -> bool:
        return not await self.runs.list_active()

    async def _has_work(self) -> bool:
        return not await self._has_no_run() or bool(await self.inbox.count_requests())

    @asynccontextmanager
    async def _open_bot(self, model_waits: Sequence[float] = RETRY_WAITS) -> AsyncGenerator[Bot]:
        if self._llm is None:
            yield self.parts
            return
        async with open_bot(self.settings, model_waits=model_waits) as bot:
            yield bot


StartBot = Callable[..., AbstractAsyncContextManager[BotHarness]]


def reactions_of(comment: Comment) -> list[str]:
    return [reaction.content for reaction in comment.reactions]


def _recorded_models(url: str) -> dict[str, object]:
    return {
        "solver_model": "anthropic:recorded-claude-sonnet-4-6",
        "anthropic_api_key": "recorded",
        "anthropic_base_url": url,
        "generators": [{}],  # the recorded answers are those of fixed machines
    }
