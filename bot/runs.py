"""The record of runs in Redis: at most one active run an issue, and none is ever forgotten."""

from __future__ import annotations

import logging
from collections.abc import AsyncGenerator, Awaitable
from enum import StrEnum
from typing import Final, NamedTuple, cast
from uuid import uuid4

from pydantic import ValidationError
from redis.asyncio import Redis

from bot.keys import DELIVERY_SECONDS, RECORD_SECONDS, Keys
from bot.lease import Lease
from bot.redis_client import run_script
from bot.types import RepoRef, Run, now

logger = logging.getLogger(__name__)

# A claim whose run is no longer active is an orphan (a crash, a record edited by hand): it is
# taken over here, in the one place where it could do harm.
CREATE: Final = """
local before = redis.call('GET', KEYS[1])
if before then return {'repeated', before} end
local claim = redis.call('GET', KEYS[2])
if claim and redis.call('SISMEMBER', KEYS[4], claim) == 1 then
  redis.call('SET', KEYS[1], claim, 'EX', ARGV[3])
  return {'running', claim}
end
redis.call('SET', KEYS[1], ARGV[1], 'EX', ARGV[3])
redis.call('SET', KEYS[2], ARGV[1])
redis.call('SET', KEYS[3], ARGV[2], 'EX', ARGV[4])
redis.call('SADD', KEYS[4], ARGV[1])
redis.call('SET', KEYS[5], ARGV[1], 'EX', ARGV[4])
return {'created', ARGV[1]}
"""
# Removes from the active set what can never be finished: its record is gone or already final.
FORGET: Final = """
redis.call('SREM', KEYS[1], ARGV[1])
if redis.call('GET', KEYS[2]) == ARGV[1] then redis.call('DEL', KEYS[2]) end
"""


class Outcome(StrEnum):
    CREATED = "created"
    RUNNING = "running"
    """The issue has an active run already; it is the answer to this request too."""
    REPEATED = "repeated"
    """This very delivery was answered before."""


class Asked(NamedTuple):
    """What became of a request for a run."""

    outcome: Outcome
    run_id: str


class Runs:
    """All runs under one Redis prefix. Every method raises redis-py's errors."""

    def __init__(self, redis: Redis, prefix: str) -> None:
        self.redis = redis
        self.keys = Keys(prefix)

    async def create(self, repo: RepoRef, issue: int, *, asked_by: str, delivery: str) -> Asked:
        """Begin a run of an issue, unless the issue has one or `delivery` was answered before.

        One atomic step: after a crash at any point either everything of it is there or nothing.
        """
        run = Run(id=uuid4().hex, repo=repo, issue=issue, asked_by=asked_by, delivery=delivery)
        keys = self.keys
        outcome, run_id = await run_script(
            self.redis,
            CREATE,
            [
                keys.delivery(delivery),
                keys.issue(repo, issue),
                keys.run(run.id),
                keys.active,
                keys.last(repo, issue),
            ],
            [run.id, run.model_dump_json(), DELIVERY_SECONDS, RECORD_SECONDS],
        )
        return Asked(Outcome(outcome.decode()), run_id.decode())

    async def get(self, run_id: str) -> Run | None:
        """The record, or None when there is none (any more).

        Raises:
            ValidationError: it is damaged, or of a newer Capuchin; it is left as it is.
        """
        record = await self.redis.get(self.keys.run(run_id))
        return None if record is None else Run.model_validate_json(record)

    async def last(self, repo: RepoRef, issue: int) -> Run | None:
        """The issue's latest run of the last 30 days, active or finished. Raises as `get`."""
        run_id: bytes | None = await self.redis.get(self.keys.last(repo, issue))
        return None if run_id is None else await self.get(run_id.decode())

    async def active(self) -> list[str]:
        """The ids of all runs that are not finished, in no order."""
        members = await cast(Awaitable[set[bytes]], self.redis.smembers(self.keys.active))
        return [member.decode() for member in members]

    async def idle(self) -> AsyncGenerator[Run]:
        """Active runs that nobody has the lease of and whose time has come.

        Cleans up on the way what a half-restored Redis may hold: active ids without a record. A
        record that cannot be read is passed over and logged: a newer worker may know it.
        """
        for run_id in await self.active():
            try:
                run = await self.get(run_id)
            except ValidationError:
                logger.error("Run %s: its record cannot be read; nobody works on it", run_id)  # noqa: TRY400 - the record may hold what a log must not
                continue
            if run is None or run.status.final:
                await self._forget(run_id, run)
            elif run.not_before is not None and run.not_before > now():
                continue
            elif not await self.redis.exists(self.keys.lease(run_id)):
                yield run

    async def acquire(self, run_id: str, *, worker: str, seconds: float) -> Lease | None:
        """The lease of an active run; None when another has it or the run is finished."""
        return await Lease.acquire(self.redis, self.keys, run_id, worker=worker, seconds=seconds)

    async def checkpoints(self, run_id: str) -> int:
        """How many checkpoints the run has written so far."""
        return int(await self.redis.get(self.keys.progress(run_id)) or 0)

    async def my_turn(self, seconds: float) -> bool:
        """True for one caller in each span of `seconds`, however many workers ask."""
        key = self.keys.labelled_turn
        return bool(await self.redis.set(key, "1", nx=True, px=int(seconds * 1000)))

    async def _forget(self, run_id: str, run: Run | None) -> None:
        issue = self.keys.issue(run.repo, run.issue) if run else self.keys.run(run_id)
        await run_script(self.redis, FORGET, [self.keys.active, issue], [run_id])
