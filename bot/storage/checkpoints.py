"""The pipeline's `Store` in Redis, so that any worker can continue a run."""

import zlib
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Final, TypeVar, cast

from pydantic import BaseModel
from redis.asyncio import Redis

from bot.data.run import RunId
from bot.storage.client import run_script, waiting_client
from bot.storage.keys import BRANCH_HISTORY_KEY, CHECKPOINT_SECONDS, ISSUE_KEY, RECORD_SECONDS, Keys
from bot.storage.runs import VERSION_KEY
from bot.storage.workers import InFlightWork
from pipeline.models.metering import LEDGER_KEY
from pipeline.run_errors import OtherFormat
from pipeline.store import decode_document, encode_record, validate_key
from pipeline.workflows.outcome import END_KEY, OUTCOME_KEY

LONG_LIVED_KEYS: Final = frozenset(
    {OUTCOME_KEY, END_KEY, ISSUE_KEY, BRANCH_HISTORY_KEY, LEDGER_KEY}
)
"""What is read after a run: its answer with all edits, and what it answered."""

M = TypeVar("M", bound=BaseModel)


class RedisStore:
    """One key a document, for seven days; `LONG_LIVED_KEYS` as long as the run's record.

    While Redis does not answer it waits; the lease's heartbeat ends a wait that is too long.
    """

    def __init__(
        self, redis: Redis, keys: Keys, run_id: RunId, in_flight: InFlightWork | None = None
    ) -> None:
        self._redis = waiting_client(redis)
        self._keys = keys
        self._run_id = run_id
        self._in_flight = in_flight or InFlightWork()

    async def load(self, key: str, kind: type[M]) -> M | None:
        redis_key = self._redis_key(key)
        packed = await self._redis.get(redis_key)
        if packed is None:
            return None
        try:
            return decode_document(kind, zlib.decompress(packed), key)
        except zlib.error:
            return None

    async def save(self, key: str, value: BaseModel) -> None:
        redis_key = self._redis_key(key)
        await self._save_packed(key, redis_key, zlib.compress(encode_record(value)))

    async def copy_from(self, other: "RedisStore", key: str) -> None:
        """Save the document that `other` has under `key`, if it is still there."""
        packed = await other.load_packed(key)
        if packed is not None:
            await self._save_packed(key, self._redis_key(key), packed)

    async def _save_packed(self, key: str, redis_key: str, packed: bytes) -> None:
        run_id = self._run_id
        keys = [
            redis_key,
            self._keys.run(run_id, "checkpoints"),
            self._keys.run(run_id, "documents"),
        ]
        counts = int(key != LEDGER_KEY)
        args = [packed, self._seconds_of(key), RECORD_SECONDS, counts, self._index_name(key)]
        with self._in_flight.uncancellable():
            await run_script(self._redis, "save_checkpoint", keys, args)
            if counts:
                self._in_flight.mark_saved()

    async def list_documents(self) -> list[str]:
        """The keys of all documents of the run, in order; some may have expired."""
        found = await cast(
            "Awaitable[set[bytes]]", self._redis.smembers(self._keys.run(self._run_id, "documents"))
        )
        return sorted(name.decode() for name in found)

    async def load_packed(self, key: str) -> bytes | None:
        """The document under `key` as it is kept, zlib of JSON; None without one."""
        found: bytes | None = await self._redis.get(self._redis_key(key))
        return found

    async def drop_archived(self) -> None:
        """Delete the documents that only its bundle needs, which is in the archive."""
        await self._drop([key for key in await self.list_documents() if key not in LONG_LIVED_KEYS])

    async def drop_all(self) -> None:
        await self._drop([*await self.list_documents(), VERSION_KEY])

    async def _drop(self, names: list[str]) -> None:
        for name in names:
            await self._redis.delete(self._redis_key(name))
        if names:
            index = self._keys.run(self._run_id, "documents")
            await cast("Awaitable[int]", self._redis.srem(index, *names))

    def _index_name(self, key: str) -> str:
        """By which name `list_documents` lists the document; empty for not at all."""
        return key

    def _seconds_of(self, key: str) -> int:
        return RECORD_SECONDS if key in LONG_LIVED_KEYS else CHECKPOINT_SECONDS

    def _redis_key(self, key: str) -> str:
        return self._keys.checkpoint(self._run_id, validate_key(key))


class CacheStore(RedisStore):
    """What several runs share and any can gather again: another format counts as absent."""

    def __init__(
        self,
        redis: Redis,
        keys: Keys,
        run_id: RunId,
        in_flight: InFlightWork | None = None,
        *,
        name_key: Callable[[str], str],
        seconds: int,
    ) -> None:
        """`run_id` is whose progress a new result is; `name_key` gives the Redis key of a document,
        which lasts `seconds`."""
        super().__init__(redis, keys, run_id, in_flight)
        self._name_key = name_key
        self._seconds = seconds

    async def load(self, key: str, kind: type[M]) -> M | None:
        """As `Store.load`, but raises no OtherFormat."""
        with suppress(OtherFormat):
            return await super().load(key, kind)
        return None

    def _index_name(self, key: str) -> str:  # noqa: ARG002
        return ""

    def _seconds_of(self, key: str) -> int:  # noqa: ARG002
        return self._seconds

    def _redis_key(self, key: str) -> str:
        return self._name_key(validate_key(key))
