"""Answers reviewers: a reaction when the work begins, a reply to each remark when it is done."""

from __future__ import annotations

from contextlib import suppress
from typing import Final

from bot.comments import followup
from bot.followup.context import PullRun
from bot.followup.feedback import FeedbackBatch, Remark
from bot.github.errors import Forbidden, NotFound
from bot.github.repository import Repository
from bot.types import CommitSha
from pipeline.workflows.revise import Revision

MAX_THREADS: Final = 30
"""Most threads that get a reaction and a reply of their own; one comment answers the others."""


async def acknowledge(ctx: PullRun, batch: FeedbackBatch) -> None:
    """React to each comment on a line; the reaction to commands is the dispatcher's."""
    on_lines = [remark for remark in batch.remarks if remark.comment is not None]
    for remark in on_lines[:MAX_THREADS]:
        if remark.comment is not None:
            await ctx.lease.require()
            await acknowledge_comment(ctx.repo, remark.comment)


async def acknowledge_comment(repo: Repository, comment: int) -> None:
    """React to a comment on a line, unless it is gone or locked."""
    with suppress(Forbidden, NotFound):
        await repo.pulls.reactions(comment, repo.issues.is_own).add("eyes")


async def answer_reviews(
    ctx: PullRun, batch: FeedbackBatch, revised: Revision, sha: CommitSha | None
) -> None:
    """Reply to comments on lines in their threads, and to all other remarks in one comment."""
    here = sha[:7] if sha and not ctx.record.handed_over else ""
    lost = bool(sha) and not here
    left_out = followup.outsiders_note(batch.untrusted)
    numbered = [(place, remark) for place, remark in enumerate(batch.remarks)]
    threads = [(place, remark) for place, remark in numbered if remark.thread is not None]
    threads = threads[:MAX_THREADS]
    others = [each for each in numbered if each not in threads]

    def text(about: list[tuple[int, Remark]], more: str) -> str:
        markers = [followup.answer_marker(remark.id) for _, remark in about]
        if lost or not revised.answer:
            name = ctx.settings.app_name
            body = followup.failure_answer(markers, name, revised.spent_ceiling == "run")
        else:
            remark = [(remark.by, revised.reply_to(place)) for place, remark in about]
            body = followup.review_answer(remark, here, markers)
        return f"{body}\n{more}\n" if more else body

    for nth, one in enumerate(threads):
        remark = one[1]
        assert remark.thread is not None
        more = left_out if nth == 0 and not others else ""
        await ctx.lease.require()
        await ctx.repo.pulls.reply_once(
            ctx.pull.number, remark.thread, followup.answer_marker(remark.id), text([one], more),
            ctx.repo.issues.is_own,
        )  # fmt: skip
    if others:
        await ctx.comment_once(followup.answer_marker(others[0][1].id), text(others, left_out))
