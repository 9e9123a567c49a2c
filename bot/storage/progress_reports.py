"""The latest progress of each run."""

from __future__ import annotations

from contextlib import suppress

from redis.asyncio import Redis

from bot.data.progress import Progress
from bot.data.run import RunId
from bot.storage.client import UNREACHABLE, plain_client, read_or_skip
from bot.storage.keys import RECORD_SECONDS, Keys
from pipeline.store import encode_record


class ProgressReports:
    """The latest progress of each run, for its page; kept as long as the run's record."""

    def __init__(self, redis: Redis, keys: Keys) -> None:
        self._redis = redis
        self._keys = keys

    async def save(self, run_id: RunId, progress: Progress) -> None:
        """Lost while Redis does not answer; the next report replaces it."""
        key, text = self._keys.progress_report(run_id), encode_record(progress)
        with suppress(*UNREACHABLE):
            await plain_client(self._redis).set(key, text, ex=RECORD_SECONDS)

    async def load(self, run_id: RunId) -> Progress:
        """The last report; empty if there was none. Raises redis-py's errors."""
        found: bytes | None = await self._redis.get(self._keys.progress_report(run_id))
        return read_or_skip(Progress, found, f"The progress of run {run_id}") or Progress()
