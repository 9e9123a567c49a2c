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

HISTORY_DAYS: Final = 365
HISTORY_SECONDS: Final = HISTORY_DAYS * DAY
MAX_HISTORY_ENTRIES: Final = 5000
"""Of one repository: about a megabyte. The latest stay."""


class RunHistoryEntry(Frozen):
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


class RunHistory(NamedTuple):
    """What is kept of a repository."""

    entries: list[RunHistoryEntry]
    """Oldest first."""
    begins_at: datetime | None
    """When the oldest of all that is kept ended; None when nothing is."""


def history_entry(run: Run) -> str:
    """What is kept of a run that is over; empty for one that came to nothing and cost nothing."""
    if run.mode.is_follow_up and not run.dollars:
        return ""
    candidate = {RunStatus.OPENED_PULL_REQUEST: 1, RunStatus.SWAPPED: run.candidate}
    return RunHistoryEntry(
        run=run.id,
        status=run.status,
        mode=run.mode,
        pull=run.issue if run.mode.is_follow_up else run.pull_request,
        candidate=candidate.get(run.status, 0),
        dollars=round(run.dollars, 6),
    ).model_dump_json(exclude_defaults=True)


async def load_history(redis: Redis, keys: Keys, repo: RepoRef, since: datetime) -> RunHistory:
    """Those that ended from `since` on. Raises redis-py's errors.

    A line that a newer Capuchin wrote and we cannot read is left out.
    """
    key = keys.history(repo)
    asked = await redis.zrangebyscore(key, int(since.timestamp()), "+inf")
    lines = cast("list[bytes]", asked)
    first = await redis.zrange(key, 0, 0, withscores=True)
    oldest = cast("list[tuple[bytes, float]]", first)
    begins = datetime.fromtimestamp(oldest[0][1], UTC) if oldest else None
    return RunHistory([one for line in lines if (one := _parse_entry(line)) is not None], begins)


def _parse_entry(line: bytes) -> RunHistoryEntry | None:
    try:
        return RunHistoryEntry.model_validate_json(line)
    except ValidationError:
        return None
