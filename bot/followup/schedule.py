"""Starts follow-up runs for events: one for each pull request, however many events arrive."""

from __future__ import annotations

from datetime import datetime, timedelta

from bot.queue.consumer import RetryLater, RunQueue
from bot.settings import Settings
from bot.storage.pulls import PullRecord
from bot.storage.requests import QueuedRequest
from bot.triggers.requests import Delay, PullUpdate, StartOutcome
from bot.types import Mode, Run, RunStatus, now, replace

RETRY_SECONDS = 0.5
"""The pause between two looks whether the current run has ended."""


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
    when = _not_before(update.delay, settings)
    run = await runs.get_current(record.repo, record.pull)
    if run is not None and not update.again and _is_unstarted(run):
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
        await queue.nudges.send(result.run_id, 0, Mode.FOLLOW_UP.lane)
    return result.outcome is not StartOutcome.RUNNING


def _is_unstarted(run: Run) -> bool:
    return run.status is RunStatus.QUEUED and run.starts == 0


def _not_before(pace: Delay, settings: Settings) -> datetime | None:
    seconds = {
        Delay.IMMEDIATE: 0.0,
        Delay.DEBOUNCED: settings.review_seconds,
        Delay.RATE_LIMITED: settings.timings.reverify_seconds,
    }[pace]
    return now() + timedelta(seconds=seconds) if seconds else None
