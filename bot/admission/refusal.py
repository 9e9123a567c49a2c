"""A polite refusal: one for each person and repository in a day."""

from __future__ import annotations

from datetime import timedelta
from typing import Final

from bot.comments import replies
from bot.github.errors import Forbidden, NotFound
from bot.github.repository import Repository
from bot.storage.keys import DAY
from bot.storage.quota import Refusals
from bot.types import Login, now

_REPEAT_AFTER: Final = timedelta(seconds=DAY)


async def refuse(
    refusals: Refusals, repo: Repository, issue: int, login: Login, text: str, *, request_id: str
) -> None:
    """Comment `text`, which holds the person's marker, unless they got a refusal today.

    `request_id` names the refused request. Of two requests at the same moment only the first is
    answered; calling again for that one, after a crash, changes nothing.

    Raises:
        GitHubError: the comment cannot be written.
    """
    if not await refusals.claim(repo.ref, login, request_id):
        return
    marker = replies.refusal_marker(login)
    try:
        await repo.issues.comment_once(issue, marker, text, since=now() - _REPEAT_AFTER)
    except (Forbidden, NotFound):  # locked or gone: refuse elsewhere instead
        await refusals.release(repo.ref, login)
        raise
