"""The end of a pull request of ours that nobody needs any more."""

from __future__ import annotations

from datetime import timedelta

from bot.comments import followup
from bot.followup.context import Care
from bot.github.errors import Forbidden, NotFound
from bot.types import now


async def over(care: Care) -> bool:
    """Whether there is nothing left to look after; what is not needed is closed, with thanks."""
    if care.pull.state != "open":
        await _cleared(care)
        await care.forgotten()
        return True
    told = _not_needed(care)
    if not told:
        return False
    marker = followup.note_marker("closed", str(care.pull.number))
    await care.say_once(marker, told)
    await care.lease.require()
    await care.repo.pulls.close(care.pull.number)
    await _cleared(care)
    await care.forgotten()
    return True


def _not_needed(care: Care) -> str:
    """The last word, or nothing while it is still needed."""
    if care.issue is not None and care.issue.state != "open":
        return followup.closed_with_issue(care.record.issue, care.pull.number)
    days, touched = care.config.stale_days, care.pull.updated_at
    if days and touched is not None and now() - touched > timedelta(days=days):
        return followup.retired(days, care.pull.number)
    return ""


async def _cleared(care: Care) -> None:
    """Delete the branch of what we closed ourselves, if it is as we left it."""
    marker = followup.note_marker("closed", str(care.pull.number))
    if await care.repo.issues.find_comment(care.pull.number, marker) is None:
        return
    head = await care.repo.branch_head(care.record.branch)
    if head is None or not care.record.ours(head):
        return
    await care.lease.require()
    try:
        await care.repo.delete_branch(care.record.branch)
    except (Forbidden, NotFound):  # nothing we may do about it
        return
