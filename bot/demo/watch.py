"""Watches the demo's run and loads its result."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from bot.demo.environment import DemoEnvironment
from bot.localhub import Issue
from bot.storage.progress import Progress
from bot.storage.storage import Storage
from bot.types import RepoRef, Run
from pipeline.models.wrappers.metered import LEDGER_KEY, Ledger
from pipeline.solve import OUTCOME_KEY, SolveResult
from pipeline.types import Account

_POLL_SECONDS = 0.1
_REDIS_SECONDS = 5.0


async def watch_run(env: DemoEnvironment, issue: Issue, show: Callable[[Progress], None]) -> Run:
    """Wait until the issue's run has ended; pass how far it has come to `show`."""
    repo = env.repo
    installation = repo.installation
    ref = RepoRef(
        owner=repo.owner.login, name=repo.name, installation=installation.id if installation else 0
    )
    async with _open_storage(env) as opened:
        storage = opened.waiting()  # one busy process holds everything: Redis may seem silent
        while True:
            run = await storage.runs.get_latest(ref, issue.number)
            if run is not None:
                show(await storage.progress.load(run.id))
                if run.status.final:
                    return run
            await asyncio.sleep(_POLL_SECONDS)


async def load_outcome(
    env: DemoEnvironment, run: Run
) -> tuple[SolveResult | None, tuple[Account, ...]]:
    """The pipeline's result, or None if it has none, and its spending."""
    async with _open_storage(env) as storage:
        store = storage.checkpoints(run.id)
        ledger = await store.load(LEDGER_KEY, Ledger)
        return await store.load(OUTCOME_KEY, SolveResult), ledger.accounts if ledger else ()


def _open_storage(env: DemoEnvironment) -> Storage:
    settings = env.settings
    return Storage.open(settings.redis_url, settings.redis_prefix, timeout=_REDIS_SECONDS)
