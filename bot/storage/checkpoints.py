"""The pipeline's `Store` in Redis, so that any worker can continue a run."""

from __future__ import annotations

import zlib
from typing import Final, TypeVar

from pydantic import BaseModel, ValidationError
from redis.asyncio import Redis

from bot.storage.client import run_script, waiting_client
from bot.storage.draining import InFlightWork
from bot.storage.keys import BRANCH_HISTORY_KEY, CHECKPOINT_SECONDS, ISSUE_KEY, RECORD_SECONDS, Keys
from pipeline.models.wrappers.metered import LEDGER_KEY
from pipeline.solve import OUTCOME_KEY
from pipeline.store import validate_key

LONG_LIVED_KEYS: Final = frozenset({OUTCOME_KEY, ISSUE_KEY, BRANCH_HISTORY_KEY, LEDGER_KEY})
"""What is read after a run: its answer with the runners-up, and what it answered."""

M = TypeVar("M", bound=BaseModel)

# Saving what is already there is no progress: a run that crashes at the same place forever does it.
# Nor is having paid: it may pay again and again for an answer that it never gets.
SAVE: Final = """
local same = redis.call('GET', KEYS[1]) == ARGV[1]
redis.call('SET', KEYS[1], ARGV[1], 'EX', ARGV[2])
if not same and ARGV[4] == "1" then
  redis.call('INCR', KEYS[2])
  redis.call('EXPIRE', KEYS[2], ARGV[3])
end
"""


class RedisStore:
    """One key a document, for seven days; `LONG_LIVED_KEYS` as long as the run's record.

    While Redis does not answer it waits; the lease's heartbeat ends a wait that is too long.
    """

    def __init__(
        self, redis: Redis, keys: Keys, run_id: str, in_flight: InFlightWork | None = None
    ) -> None:
        self._redis = waiting_client(redis)
        self._keys = keys
        self._run_id = run_id
        self._in_flight = in_flight or InFlightWork()

    async def load(self, key: str, kind: type[M]) -> M | None:
        """See `pipeline.store.Store`."""
        redis_key = self._redis_key(key)
        packed = await self._redis.get(redis_key)
        if packed is None:
            return None
        try:
            return kind.model_validate_json(zlib.decompress(packed))
        except (zlib.error, ValidationError):
            return None

    async def save(self, key: str, value: BaseModel) -> None:
        """See `pipeline.store.Store`."""
        redis_key = self._redis_key(key)
        packed = zlib.compress(value.model_dump_json().encode())
        keys = [redis_key, self._keys.checkpoint_count(self._run_id)]
        counts = int(key != LEDGER_KEY)
        seconds = RECORD_SECONDS if key in LONG_LIVED_KEYS else CHECKPOINT_SECONDS
        with self._in_flight.uncancellable():
            await run_script(self._redis, SAVE, keys, [packed, seconds, RECORD_SECONDS, counts])
            if counts:
                self._in_flight.mark_saved()

    def _redis_key(self, key: str) -> str:
        return self._keys.checkpoint(self._run_id, validate_key(key))


class EnvironmentStore(RedisStore):
    """What is true of an environment image, for every run that uses it; for seven days."""

    def __init__(
        self,
        redis: Redis,
        keys: Keys,
        run_id: str,
        in_flight: InFlightWork | None = None,
        *,
        image: str,
    ) -> None:
        """`run_id` is whose progress a new result is."""
        super().__init__(redis, keys, run_id, in_flight)
        self._image = image

    def _redis_key(self, key: str) -> str:
        return self._keys.environment(self._image, validate_key(key))
