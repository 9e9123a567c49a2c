"""How runs ended: a line for each run of a repository, and totals of all runs.

A line is kept for longer than its run. It is written in the step in which the run is finished
(`bot.storage.lease`), so each is there once.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Awaitable, Iterable
from datetime import UTC, datetime
from typing import Final, NamedTuple, cast

from pydantic import ValidationError
from redis.asyncio import Redis

from bot.storage.keys import DAY, Keys
from bot.types import Frozen, Mode, RepoRef, Run, RunStatus, now

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


class History:
    """How the runs of each repository ended."""

    def __init__(self, redis: Redis, keys: Keys) -> None:
        self._redis = redis
        self._keys = keys

    async def load(self, repo: RepoRef, since: datetime) -> RunHistory:
        """The runs that ended from `since` on. Raises redis-py's errors.

        A line that cannot be read, because a newer Capuchin wrote it, is left out.
        """
        key = self._keys.history(repo)
        asked = await self._redis.zrangebyscore(key, int(since.timestamp()), "+inf")
        lines = cast("list[bytes]", asked)
        first = await self._redis.zrange(key, 0, 0, withscores=True)
        oldest = cast("list[tuple[bytes, float]]", first)
        begins = datetime.fromtimestamp(oldest[0][1], UTC) if oldest else None
        return RunHistory(
            [one for line in lines if (one := _parse_entry(line)) is not None], begins
        )


def _parse_entry(line: bytes) -> RunHistoryEntry | None:
    try:
        return RunHistoryEntry.model_validate_json(line)
    except ValidationError:
        return None


MAX_LISTED: Final = 100
"""Finished runs on the page of all."""


class Totals(NamedTuple):
    """All runs under one prefix, in numbers."""

    active: Counter[str]
    """By `queued`, `running` and `waiting` (for what does not answer)."""
    oldest: float
    """How long the run that waits longest for a worker has done so, in seconds."""
    ended: dict[str, int]
    """By how they ended, since this Redis was made."""
    seconds: float
    """How long all of them took that came to an answer."""
    dollars: float
    """What all of them spent, at list prices."""


class RunQueries:
    """Every method raises redis-py's errors. A record that cannot be read is left out."""

    def __init__(self, redis: Redis, keys: Keys) -> None:
        self._redis = redis
        self._keys = keys

    async def list_recent(self) -> list[Run]:
        """Active runs and the latest finished ones, the newest first."""
        ended: list[bytes] = await self._redis.zrevrange(self._keys.ended, 0, MAX_LISTED - 1)
        found = await self._load_runs([*await self._list_active(), *ended])
        return sorted(found, key=lambda run: run.created_at, reverse=True)

    async def load_totals(self) -> Totals:
        """The numbers of now."""
        active = await self._load_runs(await self._list_active())
        facts = await cast(Awaitable[dict[bytes, bytes]], self._redis.hgetall(self._keys.totals))
        known = {name.decode(): value for name, value in facts.items()}
        ended = {
            status.value: int(known.get(f"ended {status.value}", 0))
            for status in RunStatus
            if status.final
        }
        waits = [run.created_at for run in active if run.starts == 0]
        return Totals(
            Counter(map(_state_of, active)),
            _age(min(waits)) if waits else 0.0,
            ended,
            float(known.get("seconds", 0)),
            float(known.get("dollars", 0)),
        )

    async def _list_active(self) -> set[bytes]:
        return await cast(Awaitable[set[bytes]], self._redis.smembers(self._keys.active))

    async def _load_runs(self, ids: Iterable[bytes]) -> list[Run]:
        keys = [self._keys.run(one.decode()) for one in dict.fromkeys(ids)]
        records: list[bytes | None] = await self._redis.mget(keys) if keys else []
        found: list[Run] = []
        for record in records:
            try:
                if record is not None:
                    found.append(Run.model_validate_json(record))
            except ValidationError:  # a newer Capuchin's
                continue
        return found


def _state_of(run: Run) -> str:
    return "waiting" if run.not_before is not None else run.status.value


def _age(at: datetime) -> float:
    return max(0.0, (now() - at).total_seconds())
