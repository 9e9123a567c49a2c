"""How the runs of a repository ended, kept for longer than the runs: a line each.

Written in the one step in which a run is finished (`bot.storage.lease`), so each is there once.
"""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Final, NamedTuple, cast

from pydantic import ValidationError
from redis.asyncio import Redis

from bot.storage.keys import DAY, Keys
from bot.types import Frozen, Mode, RepoRef, Run, RunStatus

OUTCOME_DAYS: Final = 365
OUTCOME_SECONDS: Final = OUTCOME_DAYS * DAY
MOST_OUTCOMES: Final = 5000
"""Of one repository: about a megabyte. The latest stay."""


class Ended(Frozen):
    """How one run ended. Holds no text of anybody's."""

    run: str
    status: RunStatus
    mode: Mode
    pull: int | None = None
    """The pull request that it opened, changed or looked after."""
    candidate: int = 0
    """Which edit it put there: 1 for the one that was chosen, 2 for the next best; 0: none."""
    dollars: float = 0.0
    """At list prices."""


class Known(NamedTuple):
    """What is kept of a repository."""

    ended: list[Ended]
    """Oldest first."""
    begins: datetime | None
    """When the oldest of all that is kept ended; None when nothing is."""


def entry_of(run: Run) -> str:
    """What is kept of a run that is over; empty for one that came to nothing and cost nothing."""
    if run.mode.tends and not run.dollars:
        return ""
    candidate = {RunStatus.OPENED_PULL_REQUEST: 1, RunStatus.SWAPPED: run.candidate}
    return Ended(
        run=run.id,
        status=run.status,
        mode=run.mode,
        pull=run.issue if run.mode.tends else run.pull_request,
        candidate=candidate.get(run.status, 0),
        dollars=round(run.dollars, 6),
    ).model_dump_json(exclude_defaults=True)


async def known(redis: Redis, keys: Keys, repo: RepoRef, since: datetime) -> Known:
    """Those that ended from `since` on. Raises redis-py's errors.

    A line that a newer Capuchin wrote and we cannot read is left out.
    """
    place = keys.outcomes(repo)
    asked = await redis.zrangebyscore(place, int(since.timestamp()), "+inf")
    lines = cast("list[bytes]", asked)
    first = await redis.zrange(place, 0, 0, withscores=True)
    oldest = cast("list[tuple[bytes, float]]", first)
    begins = datetime.fromtimestamp(oldest[0][1], UTC) if oldest else None
    return Known([one for line in lines if (one := _read(line)) is not None], begins)


def _read(line: bytes) -> Ended | None:
    try:
        return Ended.model_validate_json(line)
    except ValidationError:
        return None
