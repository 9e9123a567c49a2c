"""What the pages and metrics read from Redis. Every function raises redis-py's errors."""

from __future__ import annotations

from collections import Counter
from collections.abc import Awaitable, Sequence
from datetime import datetime
from typing import Final, NamedTuple, cast

from pydantic import ValidationError

from bot.storage.progress import Progress
from bot.storage.runs import Runs
from bot.types import Run, RunStatus, now

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


async def list_recent(runs: Runs) -> list[Run]:
    """Active runs and the latest finished ones, the newest first."""
    ended: list[bytes] = await runs.redis.zrevrange(runs.keys.ended, 0, MAX_LISTED - 1)
    found = await _load_runs(runs, [*await runs.list_active(), *(one.decode() for one in ended)])
    return sorted(found, key=lambda run: run.created_at, reverse=True)


async def load_progress(runs: Runs, run_id: str) -> Progress:
    """What was last told of a run's progress; nothing if there was nothing."""
    found: bytes | None = await runs.redis.get(runs.keys.progress_report(run_id))
    try:
        return Progress() if found is None else Progress.model_validate_json(found)
    except ValidationError:  # another version's
        return Progress()


async def load_totals(runs: Runs) -> Totals:
    """The numbers of now."""
    active = await _load_runs(runs, await runs.list_active())
    facts = await cast(Awaitable[dict[bytes, bytes]], runs.redis.hgetall(runs.keys.totals))
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


def _state_of(run: Run) -> str:
    return "waiting" if run.not_before is not None else run.status.value


def _age(at: datetime) -> float:
    return max(0.0, (now() - at).total_seconds())


async def _load_runs(runs: Runs, ids: Sequence[str]) -> list[Run]:
    """The records that there are and that can be read."""
    unique = list(dict.fromkeys(ids))
    if not unique:
        return []
    records: list[bytes | None] = await runs.redis.mget([runs.keys.run(one) for one in unique])
    found: list[Run] = []
    for record in records:
        try:
            if record is not None:
                found.append(Run.model_validate_json(record))
        except ValidationError:  # a newer Capuchin's
            continue
    return found
