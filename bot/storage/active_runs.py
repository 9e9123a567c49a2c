"""The runs that are not finished: which a worker has, and which wait for one."""

import logging
from collections.abc import AsyncGenerator, Awaitable
from typing import Final, NamedTuple, cast

from redis.asyncio import Redis

from bot.data.run import Lane, Run, RunId, now
from bot.storage.client import RedisRecords, run_script
from bot.storage.keys import Keys
from bot.storage.runs import begin_anew
from pipeline.run_errors import UnreadableRecord
from pipeline.store import decode_record

logger = logging.getLogger(__name__)

BATCH: Final = 200
ANNOUNCER: Final = "queue"
"""Who has the lease of a run while its place in the queue is announced."""


class Survey(NamedTuple):
    idle: list[Run]
    """Those that are due and that no worker has."""
    working: list[Run]


class ActiveRuns(RedisRecords):
    """Every method raises redis-py's errors."""

    def __init__(self, redis: Redis, keys: Keys) -> None:
        super().__init__(redis, keys)
        self._seen: dict[RunId, tuple[bytes, Run]] = {}
        """The active runs as they were last read: a lane that is not asked for is not read again,
        and a record that has not changed is not decoded again."""

    async def survey(self, lane: Lane | None = None) -> Survey:
        """The active runs of the lane, or all of them, apart by who works on them.

        Cleans up on the way what a half-restored Redis may hold: active ids without a record. A run
        whose record cannot be read begins anew, or is forgotten if it is unknown what was asked.
        """
        idle: list[Run] = []
        working: list[Run] = []
        async for run, holder in self._scan_active(lane):
            if holder:
                working.append(run)
            elif run.not_before is None or run.not_before <= now():
                idle.append(run)
        return Survey(idle, working)

    async def list_left_to(self, worker: str) -> list[Run]:
        """The active runs on which no worker but that one works; being announced is no work."""
        own = ("", worker, ANNOUNCER)
        return [run async for run, holder in self._scan_active(None) if holder in own]

    async def list_repositories(self) -> set[str]:
        """`owner/name` of every repository with an active run."""
        return {run.repo.full_name async for run, _ in self._scan_active(None)}

    async def _scan_active(self, lane: Lane | None) -> AsyncGenerator[tuple[Run, str]]:
        """Each active run of the lane, and who has its lease; empty: nobody."""
        members = await cast(Awaitable[set[bytes]], self._redis.smembers(self._keys.active))
        active = [RunId(member.decode()) for member in members]
        self._seen = {run_id: self._seen[run_id] for run_id in active if run_id in self._seen}
        wanted = [run_id for run_id in active if self._may_be_of(run_id, lane)]
        for first in range(0, len(wanted), BATCH):
            ids = wanted[first : first + BATCH]
            keys = [
                key
                for run_id in ids
                for key in (self._keys.run(run_id), self._keys.run(run_id, "lease"))
            ]
            found: list[bytes | None] = await self._redis.mget(keys)
            for run_id, record, holder in zip(ids, found[::2], found[1::2], strict=True):
                run = self._read(run_id, record)
                if run is None or run.status.final:
                    issue = self._keys.issue(run.repo, run.issue) if run else self._keys.run(run_id)
                    keys = [self._keys.active, issue, self._keys.stopping]
                    await run_script(self._redis, "forget_run", keys, [run_id])
                elif lane is None or run.mode.lane is lane:
                    yield run, (holder or b"").decode().rpartition("#")[0]

    def _may_be_of(self, run_id: RunId, lane: Lane | None) -> bool:
        """The mode of a run never changes."""
        seen = self._seen.get(run_id)
        return lane is None or seen is None or seen[1].mode.lane is lane

    def _read(self, run_id: RunId, record: bytes | None) -> Run | None:
        seen = self._seen.get(run_id)
        if seen is not None and seen[0] == record:
            return seen[1]
        if record is None:
            return None
        try:
            run = decode_record(Run, record, f"Run {run_id}")
        except UnreadableRecord as error:
            run = begin_anew(record)
            if run is None:
                logger.error("%s It is forgotten.", error)  # noqa: TRY400 - the sentence says all
        if run is not None:
            self._seen[run_id] = (record, run)
        return run
