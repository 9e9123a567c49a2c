"""Answers reviewers: a reaction when the work begins, a reply to each remark when it is done."""

from __future__ import annotations

from contextlib import suppress

from bot.comments import followup
from bot.followup.context import PullRun
from bot.followup.feedback import FeedbackBatch, Remark
from bot.github.errors import Forbidden, NotFound
from pipeline.workflows.revise import Revision


async def acknowledge(ctx: PullRun, batch: FeedbackBatch) -> None:
    """React to each comment on a line; the reaction to commands is the dispatcher's."""
    for remark in batch.remarks:
        if remark.comment is not None:
            with suppress(Forbidden, NotFound):
                mine = ctx.repo.pulls.reactions(remark.comment, ctx.repo.issues.is_own)
                await ctx.lease.require()
                await mine.add("eyes")


async def answer_reviews(ctx: PullRun, batch: FeedbackBatch, revised: Revision, sha: str) -> None:
    """Reply to comments on lines in their threads, and to all other remarks in one comment."""
    here = sha[:7] if sha and not ctx.record.handed_over else ""
    lost = bool(sha) and not here
    left_out = followup.outsiders_note(batch.untrusted)
    numbered = [(place, remark) for place, remark in enumerate(batch.remarks)]
    threads = [(place, remark) for place, remark in numbered if remark.thread is not None]
    others = [(place, remark) for place, remark in numbered if remark.thread is None]

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
