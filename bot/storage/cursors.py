"""Up to which time each repository was searched for missed webhooks."""

from __future__ import annotations

from pydantic import ValidationError
from redis.asyncio import Redis

from bot.github.models import Cursor
from bot.storage.keys import RECORD_SECONDS, Keys
from bot.types import RepoRef


class Cursors:
    """Every method raises redis-py's errors."""

    def __init__(self, redis: Redis, keys: Keys) -> None:
        self._redis = redis
        self._keys = keys

    async def get(self, repo: RepoRef) -> Cursor | None:
        """None for a repository that was not searched in the last 30 days."""
        kept = await self._redis.get(self._keys.cursor(repo))
        try:
            return None if kept is None else Cursor.model_validate_json(kept)
        except ValidationError:  # a newer Capuchin's
            return None

    async def set(self, repo: RepoRef, cursor: Cursor) -> None:
        """To be called once everything that the search found is dealt with."""
        await self._redis.set(self._keys.cursor(repo), cursor.model_dump_json(), ex=RECORD_SECONDS)
