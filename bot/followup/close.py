"""Closes a pull request of ours that nobody needs any more."""

from __future__ import annotations

from datetime import timedelta

from bot.comments import followup
from bot.followup.context import PullRun
from bot.github.errors import Forbidden, NotFound
from bot.types import now


async def close_if_obsolete(ctx: PullRun) -> bool:
    """Close the pull request if nobody needs it; returns whether its follow-up is over."""
    if ctx.pull.state != "open":
        await _delete_own_branch(ctx)
        await ctx.drop_record()
        return True
    note = _closing_note(ctx)
    if not note:
        return False
    marker = followup.note_marker("closed", str(ctx.pull.number))
    await ctx.comment_once(marker, note)
    await ctx.lease.require()
    await ctx.repo.pulls.close(ctx.pull.number)
    await _delete_own_branch(ctx)
    await ctx.drop_record()
    return True


def _closing_note(ctx: PullRun) -> str:
    """The closing comment; empty while the pull request is needed."""
    if ctx.issue is not None and ctx.issue.state != "open":
        return followup.issue_closed_note(ctx.record.issue, ctx.pull.number)
    days, touched = ctx.config.stale_days, ctx.pull.updated_at
    if days and touched is not None and now() - touched > timedelta(days=days):
        return followup.stale_note(days, ctx.pull.number)
    return ""


async def _delete_own_branch(ctx: PullRun) -> None:
    """Delete the branch if we closed the pull request and nobody pushed to it."""
    marker = followup.note_marker("closed", str(ctx.pull.number))
    if await ctx.repo.issues.find_comment(ctx.pull.number, marker) is None:
        return
    head = await ctx.repo.get_branch_head(ctx.record.branch)
    if head is None or not ctx.record.is_ours(head):
        return
    await ctx.lease.require()
    try:
        await ctx.repo.delete_branch(ctx.record.branch)
    except (Forbidden, NotFound):  # we may not, or it is gone
        return
