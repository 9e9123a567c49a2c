"""Puts a worker together from the settings: the one place where all its parts meet."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

from bot.checkout import Mirrors
from bot.github.app import GitHubApp
from bot.labelled import find_labelled
from bot.settings import Settings
from bot.solve_issue import SolveIssue
from bot.worker import Worker
from bot.workshop import Workshop, engine_of


@asynccontextmanager
async def build_worker(settings: Settings) -> AsyncGenerator[Worker, None]:
    """A worker that solves issues; its engine is closed when the block is left.

    Raises:
        SettingsError: the App's key is missing or cannot be read.
    """
    engine = engine_of(settings)
    workshop = Workshop(settings, engine)
    github = GitHubApp(settings)
    solve = SolveIssue(
        settings=settings,
        github=github,
        mirrors=Mirrors(settings.data_dir),
        workshop=workshop,
    )
    try:
        yield Worker(
            settings,
            work=solve,
            give_up=solve.give_up,
            find_labelled=lambda: find_labelled(github, settings.label),
            clean_up=workshop.clean_up,
        )
    finally:
        await engine.close()
