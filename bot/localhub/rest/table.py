"""All operations of the hub, in the order in which paths are matched."""

from __future__ import annotations

from bot.localhub.rest import (
    apps,
    checks,
    comments,
    commits,
    gitdata,
    gitrefs,
    issues,
    labels,
    pulls,
    reactions,
    repositories,
    reviews,
    statuses,
    timeline,
)
from bot.localhub.rest.call import Operation

OPERATIONS: tuple[Operation, ...] = (
    *apps.OPERATIONS,
    *repositories.OPERATIONS,
    *comments.OPERATIONS,
    *labels.OPERATIONS,
    *reactions.OPERATIONS,
    *issues.OPERATIONS,
    *timeline.OPERATIONS,
    *reviews.OPERATIONS,
    *pulls.OPERATIONS,
    *gitdata.OPERATIONS,
    *gitrefs.OPERATIONS,
    *commits.OPERATIONS,
    *checks.OPERATIONS,
    *statuses.OPERATIONS,
    *commits.FALLBACK_OPERATIONS,
)
