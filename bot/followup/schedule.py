"""From what has happened to runs on our pull requests: one each, however much happens at once."""

from __future__ import annotations

from datetime import datetime, timedelta

from bot.queue.consumer import Later, Office
from bot.queue.inbox import Item
from bot.settings import Settings
from bot.storage.pulls import PullRecord, Records
from bot.storage.runs import Outcome
from bot.triggers.requests import Pace, Tend
from bot.types import Mode, Run, RunStatus, now

WAIT_SECONDS = 0.5
"""How often what waits for a run looks whether it is over."""


async def begin(item: Item, wish: Tend, office: Office, settings: Settings) -> Later | None:
    """Have every pull request looked after that `wish` is about.

    A run that is queued sees what has happened; during one that is under way it waits for the end.
    """
    records = Records(office.runs.redis, office.runs.keys)
    waits = False
    for record in await records.meant(wish):
        if not await _begun(wish, record, office, settings):
            waits = True
    return Later(item, WAIT_SECONDS) if waits else None


async def _begun(wish: Tend, record: PullRecord, office: Office, settings: Settings) -> bool:
    """False while another run has to end first."""
    runs = office.runs
    when = _when(wish.pace, settings)
    run = await runs.current(record.repo, record.pull)
    if run is not None and not wish.again and _not_begun(run):
        await runs.hasten(run, when or now())
        return True
    asked = await runs.create(
        record.repo,
        record.pull,
        asked_by=wish.by or record.asked_by,
        delivery=f"{wish.id}-{record.pull}",
        join=False,
        mode=Mode.VERIFY if wish.again else Mode.TEND,
        not_before=when,
    )
    if asked.outcome is Outcome.CREATED and when is None:
        await office.nudges.send(asked.run_id, 0)
    return asked.outcome is not Outcome.RUNNING


def _not_begun(run: Run) -> bool:
    return run.status is RunStatus.QUEUED and run.starts == 0


def _when(pace: Pace, settings: Settings) -> datetime | None:
    seconds = {
        Pace.NOW: 0.0,
        Pace.QUIET: settings.review_seconds,
        Pace.SELDOM: settings.reverify_seconds,
    }[pace]
    return now() + timedelta(seconds=seconds) if seconds else None
