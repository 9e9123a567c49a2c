"""Puts a worker together from the settings: the one place where all its parts meet."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager

from bot.commands.dispatch import VERBS, CommandDispatcher
from bot.followup.run import FollowUpRun, dispatch_by_mode
from bot.git.mirrors import Mirrors
from bot.github.app import GitHubApp
from bot.queue.attempt import StopHandler
from bot.queue.missed_webhooks import find_missed_events
from bot.runner.models import check_models
from bot.runner.runner import PipelineRunner
from bot.runner.sandbox import build_engine
from bot.runs.queue_notice import build_announcer
from bot.settings import Settings
from bot.solve_issue import SolveIssue
from bot.triggers.decide import BotNames
from bot.worker import Worker
from pipeline.models.wrappers.throttled import RETRY_WAITS


@asynccontextmanager
async def build_worker(
    settings: Settings, *, model_waits: Sequence[float] = RETRY_WAITS
) -> AsyncGenerator[Worker, None]:
    """A worker that solves issues; its engine is closed when the block is left.

    `model_waits` as `PipelineRunner` has them.

    Raises:
        SettingsError: the App's key is missing or cannot be read; a model is none.
    """
    check_models(settings)
    engine = build_engine(settings)
    runner = PipelineRunner(settings, engine, model_waits=model_waits)
    github = GitHubApp(settings)
    solve = SolveIssue(
        settings=settings,
        github=github,
        mirrors=Mirrors(settings.data_dir),
        runner=runner,
    )
    follow_up = FollowUpRun(solve.settings, github, solve.mirrors, runner)
    try:
        yield Worker(
            settings,
            handle=dispatch_by_mode(solve, follow_up),
            give_up=dispatch_by_mode(solve.give_up, follow_up.give_up),
            stop_handler=StopHandler(
                solve.finisher.is_still_valid,
                dispatch_by_mode(solve.finisher.report_stop, follow_up.give_up),
            ),
            execute=CommandDispatcher(settings, github, VERBS),
            find_missed=lambda cursors: find_missed_events(
                github, BotNames.of(settings), cursors, pause=settings.timings.missed_seconds / 1000
            ),
            clean_up=runner.clean_up,
            announce=build_announcer(github, settings),
        )
    finally:
        await engine.close()
