"""A polite no, said to one person in one repository once a day, wherever they ask."""

from __future__ import annotations

from datetime import timedelta
from typing import Final

from bot.comments import replies
from bot.github.errors import Forbidden, NotFound
from bot.github.repository import Repository
from bot.storage.keys import DAY
from bot.storage.quota import Refusals
from bot.types import now

_REPEAT_AFTER: Final = timedelta(seconds=DAY)


async def refuse(
    refusals: Refusals, repo: Repository, issue: int, login: str, text: str, *, request_id: str
) -> None:
    """Say `text`, which holds the person's marker, unless they heard such a thing today.

    `request_id` names what is refused. Two at the same moment are answered once, by whoever came first;
    for that one, done again after a crash, nothing changes. Raises as `GitHubClient.send`.
    """
    if not await refusals.claim(repo.ref, login, request_id):
        return
    marker = replies.refusal_marker(login)
    try:
        await repo.issues.comment_once(issue, marker, text, since=now() - _REPEAT_AFTER)
    except (Forbidden, NotFound):  # locked or gone: they may hear it elsewhere
        await refusals.release(repo.ref, login)
        raise
