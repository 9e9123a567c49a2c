"""Watching the demo's run: what it is doing now, and what it came to."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable

from bot.demo.environment import Stage
from bot.localhub import Issue
from bot.storage.checkpoints import RedisStore
from bot.storage.client import open_redis
from bot.storage.keys import Keys
from bot.storage.runs import Runs
from bot.types import RepoRef, Run
from pipeline.models.wrappers.metered import LEDGER_KEY, Ledger
from pipeline.solve import OUTCOME_KEY, Solved
from pipeline.types import Account

_POLL_SECONDS = 0.1
_REDIS_SECONDS = 5.0


async def followed(stage: Stage, issue: Issue, say: Callable[[str], None]) -> Run:
    """The issue's run when it has ended; what its status comment says is passed on meanwhile."""
    repo = stage.repo
    installation = repo.installation
    ref = RepoRef(
        owner=repo.owner.login, name=repo.name, installation=installation.id if installation else 0
    )
    said = ""
    async with open_redis(stage.settings.redis_url, timeout=_REDIS_SECONDS) as redis:
        runs = Runs(redis, stage.settings.redis_prefix)
        while True:
            run = await runs.last(ref, issue.number)
            for comment in issue.comments:
                now = _plain(comment.body)
                if now and now != said:
                    said = now
                    say(f"  {now}")
            if run is not None and run.status.final:
                return run
            await asyncio.sleep(_POLL_SECONDS)


async def outcome_of(stage: Stage, run: Run) -> tuple[Solved | None, tuple[Account, ...]]:
    """What the pipeline came to, if it came to an end, and what it spent."""
    async with open_redis(stage.settings.redis_url, timeout=_REDIS_SECONDS) as redis:
        store = RedisStore(redis, Keys(stage.settings.redis_prefix), run.id)
        ledger = await store.load(LEDGER_KEY, Ledger)
        return await store.load(OUTCOME_KEY, Solved), ledger.accounts if ledger else ()


def _plain(comment: str) -> str:
    """What a comment says last, without what a reader does not see and its small print."""
    shown = re.sub(r"<!--.*?-->|<sub>.*?</sub>", "", comment, flags=re.DOTALL)
    return shown.strip().rpartition("\n")[2].strip()
