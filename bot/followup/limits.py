"""How much is followed in a day: the same quotas and ceilings as for runs of issues.

What is over them is not lost: it waits, and is followed on the next day.
"""

from __future__ import annotations

from bot.admission.quota import claim_quota
from bot.admission.refusal import refuse
from bot.comments import followup
from bot.followup.context import PullContext
from bot.followup.feedback import FeedbackBatch
from bot.types import QuotaLimit, now, replace
from pipeline.errors import Ceiling


async def apply_quota(ctx: PullContext, batch: FeedbackBatch) -> FeedbackBatch:
    """What is followed today: each reviewer has asked for one run, or is told that it must wait."""
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
    return batch.model_copy(update={"remarks": kept})


async def claim_rebase(ctx: PullContext) -> bool:
    """Whether a conflict may be mended today; it counts as asked for by who asked for the fix."""
    return await _claim(ctx, ctx.record.asked_by) is None


async def _claim(ctx: PullContext, login: str) -> QuotaLimit | None:
    run = replace(ctx.run, asked_by=login)
    return await claim_quota(ctx.lease, run, ctx.config.quota, ctx.settings)


def is_daily_ceiling(spent: Ceiling | None) -> bool:
    """Whether a ceiling was reached that begins anew tomorrow."""
    return spent in ("repository", "installation")


def is_paused(ctx: PullContext) -> bool:
    """Whether a ceiling of today was reached already."""
    return ctx.record.paused_on == _today()


async def pause(ctx: PullContext, spent: Ceiling | None, *, notify: bool) -> PullContext:
    """Nothing more today; reviewers are told that once, where there are any."""
    day = _today()
    if notify and spent is not None:
        marker = followup.note_marker("paused", day)
        await ctx.comment_once(marker, followup.budget_pause_note(spent, day))
    return await ctx.update_record(paused_on=day)


def _today() -> str:
    return now().date().isoformat()
