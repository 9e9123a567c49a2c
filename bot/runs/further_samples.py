"""Continues a finished run on the same commit: what it has found is taken over, not made again."""

import re
from typing import Final

from bot.runs.context import IssueRun
from bot.storage.checkpoints import RedisStore

KEPT: Final = (
    "issue", "pictures", "context/", "search/", "approaches", "testing/", "editing/", "votes/",
    "reports/", "heard/testing-", "heard/editing-",
)  # fmt: skip
"""What further samples build on; the choice and all that follows it are made anew."""


RESULTS: Final = ("reports/", "near/", "regression/", "control/")
"""How this repository's tests went with the edits of a run, and without one."""


async def count_samples(store: RedisStore) -> int:
    """How many samples the run in `store` began; 0 where its checkpoints have expired."""
    names = await store.list_documents()
    return sum(re.fullmatch(r"testing/\d+", name) is not None for name in names)


async def take_over_samples(ctx: IssueRun) -> None:
    """For a run that draws `more`: copy the samples of `published_run`, once."""
    if ctx.run.more and not await count_samples(ctx.store):
        await take_over(ctx, KEPT)


async def take_over(ctx: IssueRun, kept: tuple[str, ...]) -> None:
    """Copy what `published_run` has saved under keys that begin with one of `kept`."""
    earlier = ctx.storage.checkpoints(ctx.run.published_run, ctx.lease.in_flight)
    names = [name for name in await earlier.list_documents() if name.startswith(kept)]
    # A sample counts as taken over: those come last, so that a crash before them repeats the copy.
    for name in sorted(names, key=lambda name: name.startswith("testing/")):
        await ctx.store.copy_from(earlier, name)
