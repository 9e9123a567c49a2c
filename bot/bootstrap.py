"""Puts the bot together from the settings: the one place where all its parts meet."""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass

from bot.commands.dispatch import VERBS, CommandDispatcher
from bot.followup.run import FollowUpRun
from bot.git.mirrors import Mirrors
from bot.github.app import GitHubApp
from bot.queue.handler import RunHandler
from bot.queue.missed_webhooks import MissedEvent, find_missed_events
from bot.queue.sweep import SweepActions
from bot.runner.models import check_models
from bot.runner.runner import PipelineRunner
from bot.runner.sandbox import build_engine
from bot.runs.queue_notice import build_announcer
from bot.settings import Settings
from bot.solve_issue import SolveIssue
from bot.storage.cursors import Cursors
from bot.triggers.decide import BotNames
from bot.types import Mode
from bot.worker import Worker
from pipeline.models.wrappers.throttled import RETRY_WAITS


@dataclass(frozen=True)
class Bot:
    """The parts of the bot. Cheap to make: connects to nothing until asked."""

    settings: Settings
    github: GitHubApp
    mirrors: Mirrors
    runner: PipelineRunner

    @property
    def solve(self) -> SolveIssue:
        """Works on issues."""
        return SolveIssue(self.settings, self.github, self.mirrors, self.runner)

    @property
    def follow_up(self) -> FollowUpRun:
        """Works on our pull requests."""
        return FollowUpRun(self.settings, self.github, self.mirrors, self.runner)

    @property
    def handlers(self) -> Mapping[Mode, RunHandler]:
        """What works on a run of each mode."""
        return {mode: self.follow_up if mode.is_follow_up else self.solve for mode in Mode}

    @property
    def sweep_actions(self) -> SweepActions:
        """What the sweep of a worker does at GitHub and in the sandbox."""
        return SweepActions(
            find_missed=self.find_missed,
            clean_up=self.runner.clean_up,
            announce=build_announcer(self.github, self.settings),
        )

    def find_missed(self, cursors: Cursors) -> AsyncIterator[MissedEvent]:
        """See `find_missed_events`. One look takes a small part of the time between two."""
        names = BotNames.of(self.settings)
        pause = self.settings.timings.missed_seconds / 1000
        return find_missed_events(self.github, names, cursors, pause=pause)

    @property
    def commands(self) -> CommandDispatcher:
        """Carries out what comments command."""
        return CommandDispatcher(self.settings, self.github, VERBS)

    def build_worker(self, *, find_missed: bool = True) -> Worker:
        """A worker; `find_missed`: it also looks for events whose webhook did not arrive."""
        actions = self.sweep_actions
        return Worker(
            self.settings,
            self.handlers,
            execute=self.commands,
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
    return Bot(
        settings, github or GitHubApp(settings), mirrors or Mirrors(settings.data_dir), runner
    )


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
    engine = build_engine(settings)
    try:
        yield assemble(settings, PipelineRunner(settings, engine, model_waits=model_waits))
    finally:
        await engine.close()


@asynccontextmanager
async def build_worker(settings: Settings) -> AsyncGenerator[Worker, None]:
    """The worker of `open_bot`."""
    async with open_bot(settings) as bot:
        yield bot.build_worker()
