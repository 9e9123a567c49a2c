"""The right to work on a run: held by one worker at a time, and lost by silence."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

from bot.data.run import Run, RunId, RunStatus, now
from bot.errors import LeaseLost
from bot.storage.client import UNREACHABLE, run_script
from bot.storage.history import HISTORY_SECONDS, MAX_HISTORY_ENTRIES, history_entry
from bot.storage.keys import RECORD_SECONDS
from bot.storage.runs import begin_anew
from bot.storage.storage import Storage
from bot.storage.workers import InFlightWork
from pipeline.run_errors import UnreadableRecord
from pipeline.store import decode_record, encode_record
from sandbox.frozen import replace

if TYPE_CHECKING:
    from bot.storage.checkpoints import CacheStore, RedisStore

logger = logging.getLogger(__name__)


class Lease:
    """Proof that this worker has the run. Every function with an outside effect takes it."""

    def __init__(
        self, storage: Storage, run: Run, *, worker: str, fence: int, seconds: float
    ) -> None:
        """Made by `acquire`, at a moment when the lease had just been taken."""
        self.storage = storage.waiting()
        """All records; a command waits while Redis does not answer, until the lease is lost."""
        self._redis = storage.redis
        self._keys = storage.keys
        self.run = run
        self.cause = ""
        self.worker = worker
        self.fence = fence
        """Higher with every lease of this run that was ever handed out."""
        self.in_flight = InFlightWork()
        self._seconds = seconds
        self._expires = time.monotonic() + seconds
        self._token = f"{worker}#{fence}"
        self._over = False
        self.lost = False
        """Another worker may have the run, and the body was cancelled for it."""

    @classmethod
    async def acquire(
        cls, storage: Storage, run_id: RunId, *, worker: str, seconds: float
    ) -> Lease | None:
        """Take the lease of an active run; None when another has it or the run is finished.

        A run whose record has another format begins anew.
        """
        asked, keys = time.monotonic(), storage.keys
        answer = await run_script(
            storage.redis,
            "acquire_lease",
            [keys.active, keys.run(run_id, "lease"), keys.run(run_id, "fence"), keys.run(run_id)],
            [run_id, worker, int(seconds * 1000), RECORD_SECONDS],
        )
        if answer is None:
            return None
        run = await _read(storage, run_id, answer[1])
        if run is None:
            token = f"{worker}#{int(answer[0])}"
            await run_script(storage.redis, "delete_if_equal", [keys.run(run_id, "lease")], [token])
            return None
        run = replace(run, repo=await storage.locations.update(run.repo))
        lease = cls(storage, run, worker=worker, fence=int(answer[0]), seconds=seconds)
        lease._expires = asked + seconds
        return lease

    @property
    def checkpoints(self) -> RedisStore:
        return self.storage.checkpoints(self.run.id, self.in_flight)

    def open_environment(self, image: str) -> CacheStore:
        """What this run shares with others that use the same environment image."""
        return self.storage.environment(image, self.run.id, self.in_flight)

    def open_repository(self) -> CacheStore:
        """What this run shares with the others of its repository."""
        return self.storage.repository(self.run.repo, self.run.id, self.in_flight)

    async def require(self) -> None:
        """Renew the lease now; to be awaited before each effect outside.

        Raises:
            LeaseLost: another worker may have the run.
        """
        asked = time.monotonic()
        if self._over:
            raise LeaseLost(self.run.id)
        lease = self._keys.run(self.run.id, "lease")
        await self._run_if_held("renew_lease", [lease], [int(self._seconds * 1000)])
        self._expires = asked + self._seconds

    @asynccontextmanager
    async def hold(self) -> AsyncGenerator[None]:
        """Renew at every third of the time; if that fails, cancel the body.

        Raises:
            LeaseLost: the lease was lost, and the body has been cancelled for it.
        """
        body = asyncio.current_task()
        assert body is not None
        cancelled_before = body.cancelling()
        beat = asyncio.create_task(self._keep_renewing(body))
        try:
            yield
        except asyncio.CancelledError:
            if self.lost and body.uncancel() <= cancelled_before:
                raise LeaseLost(self.run.id) from None
            raise
        finally:
            beat.cancel()
            await asyncio.wait([beat])

    async def save(self, run: Run) -> None:
        """Keep `run` as the record.

        Raises:
            LeaseLost: nothing was written; the record is another worker's to write.
        """
        await self._save(run, last=False)

    async def release(self, run: Run) -> None:
        """Keep `run` and let go of the lease, so that another worker may take it up at once.

        Raises:
            LeaseLost: as in `save`.
        """
        await self._save(run, last=True)

    async def finish(self, run: Run) -> None:
        """Keep `run` as it ended, free its issue for another and let go of the lease: all or none.

        Raises:
            LeaseLost: as in `save`.
        """
        keys = self._keys
        self._over = True
        await self._run_if_held(
            "finish_run",
            [
                keys.run(run.id, "lease"),
                keys.run(run.id),
                keys.active,
                keys.issue(run.repo, run.issue),
                keys.ended,
                keys.totals,
                keys.durations,
                keys.of_repository("history", run.repo),
                keys.stopping,
            ],
            [
                encode_record(run),
                RECORD_SECONDS,
                run.id,
                *_totals(run),
                history_entry(run),
                HISTORY_SECONDS,
                MAX_HISTORY_ENTRIES,
                f"{(run.finished_at or now()).timestamp():.3f}",
            ],
        )
        self.run = run

    async def _save(self, run: Run, *, last: bool) -> None:
        keys = [self._keys.run(run.id, "lease"), self._keys.run(run.id)]
        self._over = self._over or last
        await self._run_if_held("save_run", keys, [encode_record(run), RECORD_SECONDS, int(last)])
        self.run = run

    async def _run_if_held(
        self, script: str, keys: list[str], args: list[str | bytes | int]
    ) -> None:
        """Run a script that does nothing unless the lease is ours; until then, ask again."""
        while time.monotonic() < self._expires:
            try:
                async with asyncio.timeout(self._expires - time.monotonic()):
                    held = await run_script(self._redis, script, keys, [self._token, *args])
                if held:
                    return
                break
            except UNREACHABLE:
                await asyncio.sleep(min(0.5, self._seconds / 10))
        self._expires = 0.0
        raise LeaseLost(self.run.id)

    async def _keep_renewing(self, body: asyncio.Task[object]) -> None:
        while True:
            await asyncio.sleep(self._seconds / 3)
            if self._over:
                return
            try:
                await self.require()
            except LeaseLost:
                if not self._over:
                    self.lost = True
                    body.cancel()
                return


async def _read(storage: Storage, run_id: RunId, record: bytes) -> Run | None:
    try:
        return decode_record(Run, record, f"Run {run_id}")
    except UnreadableRecord as error:
        run = begin_anew(record)
        if run is not None:
            logger.warning("%s The run begins anew.", error)
            await storage.checkpoints(run_id).drop_all()
        return run


def _totals(run: Run) -> list[str | int]:
    """How it ended, when, how long it took (empty unless it came to an answer), what it cost."""
    ended = run.finished_at or now()
    answered = run.status in (RunStatus.OPENED_PULL_REQUEST, RunStatus.NO_FIX)
    started = run.started_at if answered else None
    took = f"{(ended - started).total_seconds():.1f}" if started else ""
    durations_kept = 20
    spent = f"{run.dollars:.6f}"
    return [run.status.value, int(ended.timestamp()), took, spent, durations_kept]
