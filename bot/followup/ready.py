"""Marks a draft as ready for review once the checks pass and our evidence is confirmed."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta
from typing import Final

from bot.followup.context import PullRun
from bot.github.errors import Forbidden
from bot.github.models import CheckRunFacts, StatusFacts
from bot.types import now

NO_CHECKS_GRACE: Final = timedelta(hours=1)
"""A head without any check after this time gets none."""
PASSING: Final = frozenset({"success", "neutral", "skipped"})


async def mark_ready(ctx: PullRun) -> PullRun:
    """End the draft state if it was to last only until now; does so once, and never undoes it."""
    record = ctx.record
    if not record.ready_when_green or not ctx.pull.draft:
        return await ctx.update_record(ready_when_green=False) if record.ready_when_green else ctx
    slug = ctx.repo.identity.login.removesuffix("[bot]")
    checks = await ctx.repo.checks.list_by_others(ctx.pull.head_sha, slug)
    statuses = await ctx.repo.checks.list_statuses(ctx.pull.head_sha)
    opened = ctx.pull.created_at or now()
    if not record.evidence_confirmed or not is_green(checks, statuses, waited=now() - opened):
        return ctx
    await ctx.lease.require()
    try:
        await ctx.repo.pulls.mark_ready(ctx.pull.node_id)
    except Forbidden:  # it stays a draft; a person can mark it
        return ctx
    return await ctx.update_record(ready_when_green=False)


def is_green(
    checks: Sequence[CheckRunFacts], statuses: Sequence[StatusFacts], *, waited: timedelta
) -> bool:
    """Whether all of them succeeded. No checks at all count as success after a grace period."""
    if not checks and not statuses:
        return waited >= NO_CHECKS_GRACE
    if any(status.state != "success" for status in statuses):
        return False
    return all(check.status == "completed" and check.conclusion in PASSING for check in checks)
