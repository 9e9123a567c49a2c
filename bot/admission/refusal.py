"""A polite no, said to one person in one repository once a day, wherever they ask."""

from __future__ import annotations

from datetime import timedelta
from typing import Final, Protocol

from redis.asyncio import Redis

from bot.comments import replies
from bot.github.errors import Forbidden, NotFound
from bot.github.repository import Repository
from bot.storage.client import patiently
from bot.storage.keys import DAY, Keys
from bot.types import now

_PAUSE: Final = timedelta(seconds=DAY)


class Memory(Protocol):
    """Where it is kept who was refused: a lease, or the runs."""

    @property
    def redis(self) -> Redis: ...
    @property
    def keys(self) -> Keys: ...


async def refuse(
    memory: Memory, repo: Repository, issue: int, login: str, text: str, *, wish: str
) -> None:
    """Say `text`, which holds the person's marker, unless they heard such a thing today.

    `wish` names what is refused. Two at the same moment are answered once, by whoever came first;
    for that one, done again after a crash, nothing changes. Raises as `Wire.send`.
    """
    key = memory.keys.refused(repo.ref, login)
    if not await patiently(lambda: memory.redis.set(key, wish, nx=True, ex=DAY)):
        answered = await patiently(lambda: memory.redis.get(key))
        if answered is not None and answered != wish.encode():
            return
    marker = replies.refusal_marker(login)
    try:
        await repo.issues.comment_once(issue, marker, text, since=now() - _PAUSE)
    except (Forbidden, NotFound):  # locked or gone: they may hear it elsewhere
        await patiently(lambda: memory.redis.delete(key))
        raise
