"""What is known of requests beside their jobs: equal bodies, turns, which wait for a run."""

import hashlib
from datetime import UTC, datetime
from typing import Final

from bot.data.request import CommandRequest, QueuedKind, RunRequest, SetUpRequest
from bot.data.run import now
from bot.storage.client import RedisRecords, run_script
from bot.storage.keys import DELIVERY_SECONDS
from sandbox.frozen import Frozen

EQUAL_SECONDS: Final = 60.0
"""GitHub's times have whole seconds: a label that is taken off and put back may look the same."""
BURST: Final = 20
"""So many requests of a repository are due at once; of what people write, and of the rest."""
SPACING: Final = 200
"""Milliseconds between two further ones: a flood leaves room for other repositories."""


SET_UP_SPACING: Final = 48_000
"""Milliseconds between two writes of setting up an installation: 75 an hour, beside the 400 of
`Timings.hourly_writes`; GitHub allows 500.
https://docs.github.com/rest/using-the-rest-api/rate-limits-for-the-rest-api"""
SET_UP_BURST: Final = 40
"""So many of these writes are due at once; GitHub allows 80 a minute."""


class QueuedRequest(Frozen):
    """A request of a comment, a label or an event, with its state in the queue."""

    request: QueuedKind
    is_waiting: bool = False
    """Its author has read that it waits for the current run of the issue."""


class Requests(RedisRecords):
    """All requests under one Redis prefix. Every method raises redis-py's errors."""

    async def find_first_delivery(self, body: bytes, delivery: str) -> str:
        """The id under which a signed body came first, which is `delivery` if it is new.

        The signature covers the body alone: anybody who saw one could send it again under a new id.
        Within `EQUAL_SECONDS` of the first, an equal body is an event of its own.
        """
        key = self._keys.body(hashlib.sha256(body).hexdigest())
        if await self._redis.set(key, delivery, nx=True, ex=DELIVERY_SECONDS):
            return delivery
        is_old = DELIVERY_SECONDS - await self._redis.ttl(key) >= EQUAL_SECONDS
        found = await self._redis.get(key) if is_old else None
        return found.decode() if found else delivery

    async def find_turns(self, request: QueuedKind, count: int = 1) -> list[datetime]:
        """When so many more of its repository are due: now, unless there is a flood of them.

        What sets repositories up is paced for the whole installation.
        """
        spacing, free = SPACING, BURST * SPACING
        key = self._keys.pace(request.repo, isinstance(request, (CommandRequest, RunRequest)))
        if isinstance(request, SetUpRequest) and request.writes:
            spacing, free = SET_UP_SPACING * request.writes, SET_UP_BURST * SET_UP_SPACING
            key = self._keys.set_ups(request.repo.installation)
        at = int(now().timestamp() * 1000)
        last: int = await run_script(self._redis, "pace_request", [key], [at, spacing * count])
        turns = (last - spacing * later - free for later in reversed(range(count)))
        return [datetime.fromtimestamp(max(at, turn) / 1000, UTC) for turn in turns]

    async def is_waiting(self, request: QueuedKind) -> bool:
        return bool(await self._redis.exists(self._keys.waiting(request.id)))

    async def mark_waiting(self, request: QueuedKind) -> None:
        """Its author has read that it waits."""
        await self._redis.set(self._keys.waiting(request.id), "1", ex=DELIVERY_SECONDS)
