"""The pipeline's Store in Redis, so that any worker can go on with a run."""

from __future__ import annotations

import zlib
from typing import Final, TypeVar

from pydantic import BaseModel, ValidationError
from redis.asyncio import Redis

from bot.storage.client import patiently, run_script
from bot.storage.draining import Steps
from bot.storage.keys import CHECKPOINT_SECONDS, CONTENTS_KEY, ISSUE_KEY, RECORD_SECONDS, Keys
from bot.storage.lease import Lease
from pipeline.models.wrappers.metered import LEDGER_KEY
from pipeline.solve import OUTCOME_KEY
from pipeline.store import checked_key

KEPT: Final = frozenset({OUTCOME_KEY, ISSUE_KEY, CONTENTS_KEY, LEDGER_KEY})
"""What is asked for after a run: its answer with the runners-up, and what it answered."""

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
    """One key a document, for seven days; those of `KEPT` as long as the run's record.

    While Redis does not answer it waits; the lease's heartbeat ends a wait that is too long.
    """

    def __init__(self, redis: Redis, keys: Keys, run_id: str, steps: Steps | None = None) -> None:
        self._redis = redis
        self._keys = keys
        self._run_id = run_id
        self._steps = steps or Steps()

    @classmethod
    def of(cls, lease: Lease) -> RedisStore:
        """The checkpoints of the run that `lease` is for."""
        return cls(lease.redis, lease.keys, lease.run.id, lease.steps)

    async def load(self, key: str, kind: type[M]) -> M | None:
        """See `pipeline.store.Store`."""
        place = self._place(key)
        packed = await patiently(lambda: self._redis.get(place))
        if packed is None:
            return None
        try:
            return kind.model_validate_json(zlib.decompress(packed))
        except (zlib.error, ValidationError):
            return None

    async def save(self, key: str, value: BaseModel) -> None:
        """See `pipeline.store.Store`."""
        place = self._place(key)
        packed = zlib.compress(value.model_dump_json().encode())
        keys = [place, self._keys.progress(self._run_id)]
        counts = int(key != LEDGER_KEY)
        seconds = RECORD_SECONDS if key in KEPT else CHECKPOINT_SECONDS
        with self._steps.short():
            await patiently(
                lambda: run_script(
                    self._redis, SAVE, keys, [packed, seconds, RECORD_SECONDS, counts]
                )
            )
            if counts:
                self._steps.saved()

    def _place(self, key: str) -> str:
        return self._keys.checkpoint(self._run_id, checked_key(key))


class EnvironmentStore(RedisStore):
    """What is true of an environment image, for every run that uses it; for seven days."""

    def __init__(
        self, redis: Redis, keys: Keys, run_id: str, steps: Steps | None = None, *, image: str
    ) -> None:
        """`run_id` is whose progress a new result is."""
        super().__init__(redis, keys, run_id, steps)
        self._image = image

    @classmethod
    def at(cls, lease: Lease, image: str) -> EnvironmentStore:
        return cls(lease.redis, lease.keys, lease.run.id, lease.steps, image=image)

    def _place(self, key: str) -> str:
        return self._keys.environment(self._image, checked_key(key))
