"""Puts a worker together from the settings: the one place where all its parts meet."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager

from bot.commands.dispatch import VERBS, Desk
from bot.followup.run import TendPull, by_mode
from bot.git.mirrors import Mirrors
from bot.github.app import GitHubApp
from bot.queue.attempt import Stopping
from bot.queue.missed_webhooks import find_labelled
from bot.runner.models import check_models
from bot.runner.runner import Workshop
from bot.runner.sandbox import engine_of
from bot.runs.queue_notice import announce_with
from bot.settings import Settings
from bot.solve_issue import SolveIssue
from bot.triggers.decide import Names
from bot.worker import Worker
from pipeline.models.wrappers.throttled import WAITS


@asynccontextmanager
async def build_worker(
    settings: Settings, *, model_waits: Sequence[float] = WAITS
) -> AsyncGenerator[Worker, None]:
    """A worker that solves issues; its engine is closed when the block is left.

    `model_waits` as `Workshop` has them.

    Raises:
        SettingsError: the App's key is missing or cannot be read; a model is none.
    """
    check_models(settings)
    engine = engine_of(settings)
    workshop = Workshop(settings, engine, model_waits=model_waits)
    github = GitHubApp(settings)
    solve = SolveIssue(
        settings=settings,
        github=github,
        mirrors=Mirrors(settings.data_dir),
        workshop=workshop,
    )
    tend = TendPull(solve.settings, github, solve.mirrors, workshop)
    try:
        yield Worker(
            settings,
            work=by_mode(solve, tend),
            give_up=by_mode(solve.give_up, tend.give_up),
            stopping=Stopping(solve.ending.holds, by_mode(solve.ending.stopped, tend.give_up)),
            carry_out=Desk(settings, github, VERBS),
            find_labelled=lambda cursors: find_labelled(
                github, Names.of(settings), cursors, pause=settings.missed_seconds / 1000
            ),
            clean_up=workshop.clean_up,
            announce=announce_with(github, settings),
        )
    finally:
        await engine.close()
