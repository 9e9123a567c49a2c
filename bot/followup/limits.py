"""Applies the daily quotas and ceilings of runs on issues to follow-up work, too.

Feedback beyond them is not lost: it waits for the next day.
"""

from __future__ import annotations

from bot.admission.quota import claim_quota
from bot.admission.refusal import refuse
from bot.comments import followup
from bot.followup.context import PullRun
from bot.followup.feedback import FeedbackBatch
from bot.types import Login, QuotaLimit, now, replace
from pipeline.errors import Ceiling


async def apply_quota(ctx: PullRun, batch: FeedbackBatch) -> FeedbackBatch:
    """Count a run for each reviewer; refuse, for today, the feedback beyond the quota."""
    over: set[str] = set()
    for login in dict.fromkeys(remark.by for remark in batch.remarks):
        limit = await _claim(ctx, login)
        if limit is not None:
            over.add(login)
            await ctx.lease.require()
            text = followup.quota_refusal(login, limit)
            await refuse(
                ctx.lease.storage.refusals,
                ctx.repo,
                ctx.pull.number,
                login,
                text,
                request_id=ctx.lease.run.id,
            )
    kept = tuple(remark for remark in batch.remarks if remark.by not in over)
    return replace(batch, remarks=kept)


async def claim_rebase(ctx: PullRun) -> bool:
    """Whether a conflict may be resolved today; it counts as a run of the fix's requester."""
    return await _claim(ctx, ctx.record.asked_by) is None


async def _claim(ctx: PullRun, login: Login) -> QuotaLimit | None:
    run = replace(ctx.run, asked_by=login)
    return await claim_quota(ctx.lease, run, ctx.config.quota, ctx.settings)


def is_daily_ceiling(spent: Ceiling | None) -> bool:
    """Whether the ceiling is one that resets tomorrow."""
    return spent in ("repository", "installation")


def is_paused(ctx: PullRun) -> bool:
    """Whether a ceiling was reached today."""
    return ctx.record.paused_on == _today()


async def pause(ctx: PullRun, spent: Ceiling | None, *, notify: bool) -> PullRun:
    """Do nothing more today; with `notify`, comment that once."""
    day = _today()
    if notify and spent is not None:
        marker = followup.note_marker("paused", day)
        await ctx.comment_once(marker, followup.budget_pause_note(spent, day))
    return await ctx.update_record(paused_on=day)


def _today() -> str:
    return now().date().isoformat()
