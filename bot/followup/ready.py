"""A draft becomes ready for review once the repository's checks pass and our evidence stands."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta
from typing import Final

from bot.followup.context import Care
from bot.github.errors import Forbidden
from bot.github.models import CheckRunFacts, StatusFacts
from bot.types import now

NO_CHECKS: Final = timedelta(hours=1)
"""A head that has no check of anybody's after so long is one that nobody checks."""
FINE: Final = frozenset({"success", "neutral", "skipped"})


async def made_ready(care: Care) -> Care:
    """No draft any more, if it is to be one only until then; never undone, nor done twice."""
    record = care.record
    if not record.ready_when_green or not care.pull.draft:
        return await care.noted(ready_when_green=False) if record.ready_when_green else care
    slug = care.repo.identity.login.removesuffix("[bot]")
    checks = await care.repo.checks.of_others(care.pull.head_sha, slug)
    statuses = await care.repo.checks.statuses(care.pull.head_sha)
    opened = care.pull.created_at or now()
    if not record.shown or not green(checks, statuses, waited=now() - opened):
        return care
    await care.lease.require()
    try:
        await care.repo.pulls.mark_ready(care.pull.node_id)
    except Forbidden:  # it stays a draft; a person can still say so
        return care
    return await care.noted(ready_when_green=False)


def green(
    checks: Sequence[CheckRunFacts], statuses: Sequence[StatusFacts], *, waited: timedelta
) -> bool:
    """Whether all of them have ended well. None at all count as that only after a while."""
    if not checks and not statuses:
        return waited >= NO_CHECKS
    if any(status.state != "success" for status in statuses):
        return False
    return all(check.status == "completed" and check.conclusion in FINE for check in checks)
