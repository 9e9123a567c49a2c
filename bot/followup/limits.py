"""How much is followed in a day: the same quotas and ceilings as for runs of issues.

What is over them is not lost: it waits, and is followed on the next day.
"""

from __future__ import annotations

from bot.admission.quota import over_quota
from bot.admission.refusal import refuse
from bot.comments import followup
from bot.followup.context import Care
from bot.followup.feedback import Batch
from bot.storage.client import patiently
from bot.types import Limit, changed, now
from pipeline.errors import Ceiling


async def served(care: Care, batch: Batch) -> Batch:
    """What is followed today: each reviewer has asked for one run, or is told that it must wait."""
    over: set[str] = set()
    for login in dict.fromkeys(said.by for said in batch.said):
        limit = await _over(care, login)
        if limit is not None:
            over.add(login)
            await care.lease.require()
            text = followup.over_quota(login, limit)
            await refuse(
                care.lease, care.repo, care.pull.number, login, text, wish=care.lease.run.id
            )
    kept = tuple(said for said in batch.said if said.by not in over)
    return batch.model_copy(update={"said": kept})


async def affords(care: Care) -> bool:
    """Whether a conflict may be mended today; it counts as asked for by who asked for the fix."""
    return await _over(care, care.record.asked_by) is None


async def _over(care: Care, login: str) -> Limit | None:
    run = changed(care.run, asked_by=login)
    return await patiently(lambda: over_quota(care.lease, run, care.config.quota, care.settings))


def of_the_day(spent: Ceiling | None) -> bool:
    """Whether a ceiling was reached that begins anew tomorrow."""
    return spent in ("repository", "installation")


def paused(care: Care) -> bool:
    """Whether a ceiling of today was reached already."""
    return care.record.paused == _today()


async def pause(care: Care, spent: Ceiling | None, *, tell: bool) -> Care:
    """Nothing more today; reviewers are told that once, where there are any."""
    day = _today()
    if tell and spent is not None:
        marker = followup.note_marker("paused", day)
        await care.say_once(marker, followup.paused(spent, day))
    return await care.noted(paused=day)


def _today() -> str:
    return now().date().isoformat()
