"""Puts the bot together from the settings: the one place where all its parts meet."""

import asyncio
import dataclasses
import logging
from collections.abc import AsyncGenerator, AsyncIterator, Collection, Coroutine, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from functools import partial
from typing import Any

from bot.commands.dispatch import CommandDispatcher
from bot.comments.replies import render_writes_spent
from bot.data.request import MissedEvent
from bot.data.run import Mode
from bot.errors import GitHubError
from bot.followup.run import FollowUpRun
from bot.git.mirrors import Mirrors
from bot.github.app import GitHubApp
from bot.queue.attempt import RunHandler
from bot.queue.missed_webhooks import REPOSITORY_SECONDS, find_missed_events
from bot.queue.sweep import SweepActions
from bot.queue.worker import REDIS_SECONDS, Worker
from bot.runner.models import check_models, import_clients, warn_of_settings
from bot.runner.runner import PipelineRunner
from bot.runner.sandbox import build_engine
from bot.runs.status_comment import build_announcer
from bot.settings import Settings
from bot.solve_issue import SolveIssue
from bot.storage.quota import InstallationWrites
from bot.storage.storage import Storage
from bot.storage.workers import Cursors
from bot.telemetry.measurements import EVICTED, KEPT, LIMIT
from bot.webhooks.labels import BotNames
from pipeline.models.wrappers import RETRY_WAITS
from sandbox.frozen import replace

logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class Bot:
    """The parts of the bot. Cheap to make: connects to nothing until asked."""

    settings: Settings
    github: GitHubApp
    mirrors: Mirrors
    runner: PipelineRunner
    polls: bool = False
    """No webhooks are expected: workers poll GitHub instead."""

    @property
    def solve(self) -> SolveIssue:
        return SolveIssue(self.settings, self.github, self.mirrors, self.runner)

    @property
    def handlers(self) -> Mapping[Mode, RunHandler]:
        """What works on a run of each mode."""
        follow_up = FollowUpRun(self.settings, self.github, self.mirrors, self.runner)
        return {mode: follow_up if mode.is_follow_up else self.solve for mode in Mode}

    @property
    def sweep_actions(self) -> SweepActions:
        return SweepActions(
            find_missed=self.find_missed,
            clean_up=self.runner.clean_up,
            make_room=self.make_room,
            announce=build_announcer(self.github, self.settings),
            archive=self.archive_runs if self.settings.archive else None,
            polls=self.polls,
        )

    async def make_room(self, busy: Collection[str]) -> None:
        """Keep mirrors and images within their ceilings; the mirrors of `busy` stay.

        Raises:
            TryLater: Docker does not answer.
        """
        settings = self.settings
        limits = {"mirrors": settings.mirrors_mb, "images": settings.sandbox_images_mb}
        limits = {kind: size * 1_000_000 for kind, size in limits.items()}
        mirrors = await self.mirrors.evict(max_bytes=limits["mirrors"], keep=busy)
        images = await self.runner.evict_images(limits["images"])
        KEPT.labels("mirrors").set(mirrors.size_bytes)
        for kind, size in (("mirrors", mirrors.evicted_bytes), ("images", images)):
            LIMIT.labels(kind).set(limits[kind])
            EVICTED.labels(kind).inc(size)
            if size:
                logger.info("Deleted %.0f MB of the least recently used %s", size / 1e6, kind)

    async def archive_runs(self, storage: Storage) -> None:
        from bot.archive import ObjectStore, archive_runs  # few bots have an archive

        after = self.settings.timings.archive_after_seconds
        await archive_runs(storage, ObjectStore(self.settings.archive), after=after)

    def find_missed(self, cursors: Cursors) -> AsyncIterator[MissedEvent]:
        names = BotNames.of(self.settings)
        pause = min(REPOSITORY_SECONDS, self.settings.timings.missed_seconds / 75)
        return find_missed_events(self.github, names, cursors, pause=pause)

    def build_worker(self, *, find_missed: bool = True) -> Worker:
        """A worker; `find_missed`: it also looks for events whose webhook did not arrive."""
        actions = self.sweep_actions
        return Worker(
            self.settings,
            self.handlers,
            execute=CommandDispatcher(self.settings, self.github),
            sweep_actions=actions if find_missed else actions._replace(find_missed=None),
        )


def assemble(
    settings: Settings,
    runner: PipelineRunner,
    *,
    github: GitHubApp | None = None,
    mirrors: Mirrors | None = None,
) -> Bot:
    """The bot around `runner`; `github` and `mirrors` are built from the settings unless given."""
    github = github or GitHubApp(settings)
    github.open_writes = partial(_open_writes, settings)
    return Bot(settings, github, mirrors or Mirrors(settings.data_dir), runner)


@asynccontextmanager
async def _open_writes(settings: Settings, installation: int) -> AsyncGenerator[InstallationWrites]:
    """The writes of an installation; while Redis does not answer, a write waits."""
    url, prefix = settings.redis_url, settings.redis_prefix
    async with Storage.open(url, prefix, timeout=REDIS_SECONDS) as storage:
        yield storage.waiting().open_writes(installation, settings.timings, render_writes_spent)


@asynccontextmanager
async def open_bot(
    settings: Settings, *, model_waits: Sequence[float] = RETRY_WAITS
) -> AsyncGenerator[Bot, None]:
    """The bot with the models and the sandbox of the settings; leaving the block closes them.

    `model_waits` are the seconds between tries of a model that does not answer.

    Raises:
        SettingsError: the App's key is missing or cannot be read; a model does not exist.
    """
    check_models(settings)
    import_clients(settings)
    warn_of_settings(settings)
    engine = build_engine(settings)
    try:
        yield assemble(settings, PipelineRunner(settings, engine, model_waits=model_waits))
    finally:
        await engine.close()


@asynccontextmanager
async def build_worker(settings: Settings, *, poll: float = 0) -> AsyncGenerator[Worker, None]:
    """The worker of `open_bot`. `poll`: ask GitHub for events every `poll` seconds."""
    if poll:
        timings = replace(settings.timings, missed_seconds=poll)
        settings = replace(settings, timings=timings)
    async with open_bot(settings) as bot, _in_background(learn_app(settings, bot.github)):
        yield dataclasses.replace(bot, polls=poll > 0).build_worker()


@asynccontextmanager
async def _in_background(work: Coroutine[Any, Any, None]) -> AsyncGenerator[None]:
    task = asyncio.create_task(work)
    try:
        yield
    finally:
        task.cancel()
        await asyncio.wait([task])


async def learn_app(settings: Settings, github: GitHubApp) -> None:
    """Save what GitHub calls the App, and log which installations lack permissions or events."""
    try:
        slug = (await github.load_registration()).slug
        async with Storage.open(
            settings.redis_url, settings.redis_prefix, timeout=REDIS_SECONDS
        ) as storage:
            await storage.waiting().save_app_slug(slug)
        for sentence in await github.find_incomplete():
            logger.warning("%s", sentence)
    except GitHubError as error:  # each run tells
        logger.warning("The App's name and permissions on GitHub are unknown: %s", error)
