"""The runs that are not finished: who works on each, and which wait for somebody."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Awaitable
from typing import Final, NamedTuple, cast

from redis.asyncio import Redis

from bot.storage.client import run_script
from bot.storage.keys import Keys
from bot.storage.records import RunsOfAnyFormat
from bot.storage.scripts import FORGET
from bot.types import Run, RunId, now
from pipeline.errors import OtherFormat

BATCH: Final = 200
"""Records that are read in one round trip."""


class Survey(NamedTuple):
    """The active runs of one moment."""

    idle: list[Run]
    """Those whose time has come and that nobody works on."""
    working: list[Run]


class ActiveRuns:
    """Every method raises redis-py's errors."""

    def __init__(self, redis: Redis, keys: Keys) -> None:
        self._redis = redis
        self._keys = keys
        self._any_format = RunsOfAnyFormat(redis, keys)

    async def list_idle(self) -> AsyncGenerator[Run]:
        """Active runs that nobody has the lease of and whose time has come.

        Cleans up on the way what a half-restored Redis may hold: active ids without a record. A run
        whose record cannot be read comes as one that failed, or is forgotten if too little of it is
        known; while a newer worker may continue it, it is passed over.
        """
        async for run, is_leased in self._scan_active():
            if run.not_before is not None and run.not_before > now():
                if run.stop is None and await self._redis.exists(self._keys.stop(run.id)):
                    yield run  # it need not wait for what it will not use
            elif not is_leased:
                yield run

    async def survey(self) -> Survey:
        """All active runs, apart by who works on them. Cleans up like `list_idle`."""
        idle: list[Run] = []
        working: list[Run] = []
        async for run, is_leased in self._scan_active():
            if is_leased:
                working.append(run)
            elif run.not_before is None or run.not_before <= now():
                idle.append(run)
        return Survey(idle, working)

    async def list_repositories(self) -> set[str]:
        """`owner/name` of every repository with an active run."""
        return {run.repo.full_name async for run, _ in self._scan_active()}

    async def _scan_active(self) -> AsyncGenerator[tuple[Run, bool]]:
        """Each active run, and whether somebody has its lease."""
        keys, active = self._keys, await self._list_ids()
        for first in range(0, len(active), BATCH):
            ids = active[first : first + BATCH]
            async with self._redis.pipeline(transaction=False) as pipe:
                pipe.mget([keys.run(run_id) for run_id in ids])
                for run_id in ids:
                    pipe.exists(keys.lease(run_id))
                records, *leased = await pipe.execute()
            for run_id, record, is_leased in zip(ids, records, leased, strict=True):
                try:
                    run = await self._any_format.read(run_id, record)
                except OtherFormat:
                    continue
                if run is None or run.status.final:
                    await self._forget(run_id, run)
                else:
                    yield run, bool(is_leased)

    async def _list_ids(self) -> list[RunId]:
        members = await cast(Awaitable[set[bytes]], self._redis.smembers(self._keys.active))
        return [RunId(member.decode()) for member in members]

    async def _forget(self, run_id: RunId, run: Run | None) -> None:
        issue = self._keys.issue(run.repo, run.issue) if run else self._keys.run(run_id)
        await run_script(
            self._redis, FORGET, [self._keys.active, issue, self._keys.stopping], [run_id]
        )
