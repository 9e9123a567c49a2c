"""How runs ended: a line for each run of a repository, and totals of all runs.

A line is kept for longer than its run. It is written in the step in which the run is finished
(`bot.storage.lease`), so each is there once.
"""

import logging
from collections import Counter
from collections.abc import Awaitable, Iterable
from datetime import UTC, datetime
from typing import Final, NamedTuple, cast

from bot.data.run import Mode, RepoRef, Run, RunId, RunStatus, now
from bot.storage.client import RedisRecords, read_or_skip
from bot.storage.keys import DAY
from pipeline.run_errors import UnreadableRecord
from pipeline.store import decode_record, encode_record
from sandbox.frozen import Frozen

logger = logging.getLogger(__name__)

HISTORY_DAYS: Final = 365
HISTORY_SECONDS: Final = HISTORY_DAYS * DAY
MAX_HISTORY_ENTRIES: Final = 5000
"""Of one repository: about a megabyte. The latest stay."""


class RunHistoryEntry(Frozen):
    """How one run ended. Holds no text of anybody's."""

    run: RunId
    status: RunStatus
    mode: Mode
    pull: int | None = None
    """The pull request that it opened, changed or followed up."""
    candidate: int = 0
    """Which edit it put there: 1 for the one that was chosen, 2 for the next best; 0: none."""
    dollars: float = 0.0
    confidence: float | None = None
    """How sure we were of the edit that it proposed, before any recalibration; None: it proposed
    none, or a person chose it."""
    language: str = ""
    """That of the edit, if the confidence was not fitted on edits in it."""


class DecidedEdit(Frozen):
    """An edit that we proposed, and that people decided about."""

    confidence: float
    """As in `RunHistoryEntry`, 0 to 1."""
    right: float
    """1: it was merged as it was; 0: it was not, or it was reverted; in between: people changed
    it."""
    language: str = ""
    """As in `RunHistoryEntry`."""


class _DecidedEdits(Frozen):
    edits: tuple[DecidedEdit, ...]


class RunHistory(NamedTuple):
    entries: list[RunHistoryEntry]
    begins_at: datetime | None
    """When the oldest of all that is kept ended; None when nothing is."""


def history_entry(run: Run) -> bytes:
    """What is kept of a run that is over; empty for one that came to nothing and cost nothing."""
    if run.mode.is_follow_up and not run.dollars:
        return b""
    candidate = {RunStatus.OPENED_PULL_REQUEST: 1, RunStatus.SWAPPED: run.candidate}
    entry = RunHistoryEntry(
        run=run.id,
        status=run.status,
        mode=run.mode,
        pull=run.issue if run.mode.is_follow_up else run.pull_request,
        candidate=candidate.get(run.status, 0),
        dollars=round(run.dollars, 6),
        confidence=run.confidence if run.status is RunStatus.OPENED_PULL_REQUEST else None,
        language=run.language,
    )
    return encode_record(entry, exclude_defaults=True)


class History(RedisRecords):
    async def load(self, repo: RepoRef, since: datetime) -> RunHistory:
        """The runs that ended from `since` on. Raises redis-py's errors.

        A line that cannot be read is left out; the first of them is logged.
        """
        key = self._keys.of_repository("history", repo)
        asked = await self._redis.zrangebyscore(key, int(since.timestamp()), "+inf")
        lines = cast("list[bytes]", asked)
        first = await self._redis.zrange(key, 0, 0, withscores=True)
        oldest = cast("list[tuple[bytes, float]]", first)
        begins = datetime.fromtimestamp(oldest[0][1], UTC) if oldest else None
        entries: list[RunHistoryEntry] = []
        problems: list[UnreadableRecord] = []
        for line in lines:
            try:
                entries.append(decode_record(RunHistoryEntry, line, f"A run of {repo.full_name}"))
            except UnreadableRecord as problem:
                problems.append(problem)
        if problems:
            logger.warning("%d ended runs are not counted: %s", len(problems), problems[0])
        return RunHistory(entries, begins)

    async def load_decided(self, repo: RepoRef) -> tuple[DecidedEdit, ...] | None:
        """What `save_decided` kept in the last day; None otherwise. Raises redis-py's errors."""
        kept = await self._redis.get(self._keys.of_repository("outcomes", repo))
        found = read_or_skip(_DecidedEdits, kept, f"The outcomes of {repo.full_name}")
        return found.edits if found else None

    async def save_decided(self, repo: RepoRef, edits: tuple[DecidedEdit, ...]) -> None:
        """Keep what became of our edits for a day. Raises redis-py's errors."""
        record = encode_record(_DecidedEdits(edits=edits))
        await self._redis.set(self._keys.of_repository("outcomes", repo), record, ex=DAY)


MAX_LISTED: Final = 2000
"""Finished runs that the page of all reads: the latest."""
BATCH: Final = 200


class Totals(NamedTuple):
    active: Counter[str]
    """By `queued`, `running` and `waiting` (for what does not answer)."""
    oldest: float
    """How long the run that waits longest for a worker has done so, in seconds."""
    ended: dict[str, int]
    """By how they ended, since this Redis was made."""
    seconds: float
    """How long all of them took that came to an answer."""
    dollars: float
    leased: int


class RunQueries(RedisRecords):
    """Every method raises redis-py's errors. A record that cannot be read is left out."""

    async def list_recent(self) -> list[Run]:
        """Active runs and the latest `MAX_LISTED` finished ones, the newest first."""
        ended: list[bytes] = await self._redis.zrevrange(self._keys.ended, 0, MAX_LISTED - 1)
        found = await self._load_runs([*await self._list_active(), *ended])
        return sorted(found, key=lambda run: run.created_at, reverse=True)

    async def list_active(self) -> list[Run]:
        """The runs that are not finished, in no order."""
        return await self._load_runs(await self._list_active())

    async def list_of_issue(self, repo: RepoRef, issue: int) -> list[Run]:
        """The runs of an issue that are still on record, the newest first."""
        key = self._keys.issue(repo, issue, "runs")
        ids = await cast("Awaitable[list[bytes]]", self._redis.lrange(key, 0, -1))
        return await self._load_runs(ids)

    async def load_totals(self) -> Totals:
        active = await self.list_active()
        facts = await cast(Awaitable[dict[bytes, bytes]], self._redis.hgetall(self._keys.totals))
        known = {name.decode(): value for name, value in facts.items()}
        ended = {
            status.words: int(known.get(f"ended {status.value}", 0))
            for status in RunStatus
            if status.final
        }
        waits = [run.created_at for run in active if run.starts == 0]
        return Totals(
            Counter("waiting" if run.not_before else run.status.value for run in active),
            max(0.0, (now() - min(waits)).total_seconds()) if waits else 0.0,
            ended,
            float(known.get("seconds", 0)),
            float(known.get("dollars", 0)),
            await self._count_leased(active),
        )

    async def _count_leased(self, runs: Iterable[Run]) -> int:
        async with self._redis.pipeline(transaction=False) as pipe:
            for run in runs:
                pipe.exists(self._keys.run(run.id, "lease"))
            return sum(await pipe.execute())

    async def _list_active(self) -> set[bytes]:
        return await cast(Awaitable[set[bytes]], self._redis.smembers(self._keys.active))

    async def _load_runs(self, ids: Iterable[bytes]) -> list[Run]:
        keys = [self._keys.run(RunId(one.decode())) for one in dict.fromkeys(ids)]
        found: list[Run] = []
        for first in range(0, len(keys), BATCH):  # other requests have their turn between two
            records: list[bytes | None] = await self._redis.mget(keys[first : first + BATCH])
            for record in records:
                try:
                    if record is not None:
                        found.append(decode_record(Run, record, "A run"))
                except UnreadableRecord:  # the sweep logs and ends it
                    continue
        return found
