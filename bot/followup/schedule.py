"""Starts follow-up runs for events, within daily limits.

Feedback beyond them is not lost: it waits for the next day.
"""

from datetime import timedelta

from bot.admission.check import claim_quota, refuse
from bot.comments.followup import Note
from bot.data.pull import PullRecord
from bot.data.request import Delay, PullUpdate, StartOutcome
from bot.data.run import Login, Mode, QuotaLimit, RunStatus, now
from bot.followup.feedback import FeedbackBatch, PullRun
from bot.queue.jobs import RetryLater, RunQueue
from bot.safe_text import make_marker
from bot.settings import Settings
from bot.storage.requests import QueuedRequest
from pipeline.run_errors import Ceiling
from sandbox.frozen import replace


async def apply_quota(ctx: PullRun, batch: FeedbackBatch) -> FeedbackBatch:
    """Count a run for each reviewer; refuse, for today, the feedback beyond the quota."""
    over: set[str] = set()
    for login in dict.fromkeys(remark.by for remark in batch.remarks):
        limit = await _claim(ctx, login)
        if limit is not None:
            over.add(login)
            await ctx.lease.require()
            await refuse(
                ctx.storage.refusals,
                ctx.repo,
                ctx.pull.number,
                login,
                limit,
                request_id=ctx.run.id,
                deferred=True,
            )
    kept = tuple(remark for remark in batch.remarks if remark.by not in over)
    return replace(batch, remarks=kept)


async def claim_rebase(ctx: PullRun) -> bool:
    """Whether a conflict may be resolved today; it counts as a run of the fix's requester."""
    return await _claim(ctx, ctx.record.asked_by) is None


async def _claim(ctx: PullRun, login: Login) -> QuotaLimit | None:
    run = replace(ctx.run, asked_by=login)
    return await claim_quota(ctx.storage.quota, run, ctx.settings)


def is_daily_ceiling(spent: Ceiling | None) -> bool:
    return spent in ("repository", "installation")


def is_paused(ctx: PullRun) -> bool:
    return ctx.record.paused_on == _today()


async def pause(ctx: PullRun, spent: Ceiling | None, *, notify: bool) -> PullRun:
    """Do nothing more today; with `notify`, comment that once."""
    day = _today()
    if notify and spent is not None:
        whose = "of this repository" if spent == "repository" else "of this bot's operator"
        await ctx.comment_once(Note.PAUSED.format(whose=whose), make_marker("paused", day))
    return await ctx.update_record(paused_on=day)


def _today() -> str:
    return now().date().isoformat()


RETRY_SECONDS = 0.5
"""How soon a request is tried again that waits for the current run to end."""


async def schedule_follow_up(
    item: QueuedRequest, update: PullUpdate, queue: RunQueue, settings: Settings
) -> RetryLater | None:
    """Start a follow-up run for every pull request that `update` is about.

    A queued run will see the event itself; during a run that has begun, the request waits.
    """
    waits = False
    for record in await queue.storage.pulls.find_concerned(update):
        if not await _schedule_one(update, record, queue, settings):
            waits = True
    return RetryLater(replace(item, is_waiting=True), RETRY_SECONDS) if waits else None


async def _schedule_one(
    update: PullUpdate, record: PullRecord, queue: RunQueue, settings: Settings
) -> bool:
    """Whether a run will see the event; False while another run must end first."""
    runs = queue.runs
    seconds = {
        Delay.IMMEDIATE: 0.0,
        Delay.DEBOUNCED: settings.timings.review_seconds,
        Delay.RATE_LIMITED: settings.timings.reverify_seconds,
    }[update.delay]
    when = now() + timedelta(seconds=seconds) if seconds else None
    run = await runs.get_current(record.repo, record.pull)
    is_unstarted = run is not None and run.status is RunStatus.QUEUED and run.starts == 0
    if run is not None and is_unstarted and not update.again:
        await runs.bring_forward(run, when or now())
        return True
    result = await runs.create(
        record.repo,
        record.pull,
        asked_by=update.by or record.asked_by,
        delivery=f"{update.id}-{record.pull}",
        join=False,
        mode=Mode.VERIFY if update.again else Mode.FOLLOW_UP,
        not_before=when,
    )
    if result.outcome is StartOutcome.CREATED and when is None:
        await queue.send(result.run_id, 0, Mode.FOLLOW_UP.lane)
    return result.outcome is not StartOutcome.RUNNING
