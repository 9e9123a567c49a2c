"""A polite refusal: one for each person and repository in a day."""

from __future__ import annotations

from datetime import timedelta
from typing import Final, Protocol

from redis.asyncio import Redis

from bot.comments import replies
from bot.github.errors import Forbidden, NotFound
from bot.github.repository import Repository
from bot.storage.client import retry_until_available
from bot.storage.keys import DAY, Keys
from bot.types import now

_REPEAT_AFTER: Final = timedelta(seconds=DAY)


class RefusalStore(Protocol):
    """Remembers who was refused: a lease, or the runs."""

    @property
    def redis(self) -> Redis: ...
    @property
    def keys(self) -> Keys: ...


async def refuse(
    store: RefusalStore, repo: Repository, issue: int, login: str, text: str, *, request_id: str
) -> None:
    """Comment `text`, which holds the person's marker, unless they got a refusal today.

    `request_id` names the refused request. Of two requests at the same moment only the first is
    answered; calling again for that one, after a crash, changes nothing.

    Raises:
        GitHubError: the comment cannot be written.
    """
    key = store.keys.last_refusal(repo.ref, login)
    if not await retry_until_available(lambda: store.redis.set(key, request_id, nx=True, ex=DAY)):
        answered = await retry_until_available(lambda: store.redis.get(key))
        if answered is not None and answered != request_id.encode():
            return
    marker = replies.refusal_marker(login)
    try:
        await repo.issues.comment_once(issue, marker, text, since=now() - _REPEAT_AFTER)
    except (Forbidden, NotFound):  # locked or gone: refuse elsewhere instead
        await retry_until_available(lambda: store.redis.delete(key))
        raise
