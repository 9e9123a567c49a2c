"""The start of a run on an issue: its reaction, its status comment, its base commit."""

from __future__ import annotations

from contextlib import suppress

from bot.comments.status import render_started
from bot.github.errors import Forbidden
from bot.links import run_page_url
from bot.runs.context import IssueRun
from bot.types import replace


async def begin_run(ctx: IssueRun) -> None:
    """Show on the issue that work begins, and fix the commit that the run works on.

    The first worker fixes the commit; later ones fetch the same.

    Raises:
        RepositoryGone, RepositoryEmpty, GitHubUnavailable, LeaseLost.
    """
    lease = ctx.lease
    await lease.require()
    with suppress(Forbidden):  # the issue is locked
        await ctx.repo.issues.react(ctx.run.issue, "eyes")
    page = run_page_url(ctx.settings, ctx.run.id)
    run = replace(ctx.run, page_url=page, queue_position=0)
    comment = await ctx.status.write(run, render_started(run))
    await lease.save(replace(run, comment_id=comment))
    base = await ctx.fetch(ctx.run.base_commit)
    await lease.save(replace(ctx.run, base_commit=base.base))
