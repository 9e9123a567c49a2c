"""Continues a finished run: its samples are taken over, and further ones drawn beside them."""

from __future__ import annotations

import re
from typing import Final

from bot.runs.context import IssueRun
from bot.storage.checkpoints import RedisStore

KEPT: Final = (
    "issue", "pictures", "context/", "search/", "approaches", "testing/", "editing/", "votes/",
    "reports/", "heard/testing-", "heard/editing-",
)  # fmt: skip
"""What further samples build on; the choice and all that follows it are made anew."""


async def count_samples(store: RedisStore) -> int:
    """How many samples the run in `store` began; 0 where its checkpoints have expired."""
    names = await store.list_documents()
    return sum(re.fullmatch(r"testing/\d+", name) is not None for name in names)


async def take_over_samples(ctx: IssueRun) -> None:
    """For a run that draws `more`: copy the samples of `published_run`, once."""
    if not ctx.run.more or await count_samples(ctx.store):
        return
    earlier = ctx.storage.checkpoints(ctx.run.published_run, ctx.lease.in_flight)
    names = [name for name in await earlier.list_documents() if name.startswith(KEPT)]
    # A sample counts as taken over: those come last, so that a crash before them repeats the copy.
    for name in sorted(names, key=lambda name: name.startswith("testing/")):
        await ctx.store.copy_from(earlier, name)
