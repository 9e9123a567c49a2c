"""Lists changes since a moment; without changes, requests do not count against the rate limit."""

from __future__ import annotations

from datetime import datetime
from typing import Final, TypeVar

from bot.github.http import PER_PAGE
from bot.github.models import CommentFacts, IssueFacts
from bot.github.repository_api import RepositoryApi

MAX_PAGES: Final = 10
Found = TypeVar("Found", IssueFacts, CommentFacts)


async def list_changed(
    api: RepositoryApi, kind: type[Found], since: datetime, etag: str, *what: str, **query: str
) -> tuple[list[Found], datetime, str]:
    """The objects changed since `since`, oldest first, with the moment and ETag for the next call.

    Raises:
        GitHubError: GitHub is unavailable or refuses the request.
    """
    query |= {
        "sort": "updated",
        "direction": "asc",
        "since": since.strftime("%Y-%m-%dT%H:%M:%SZ"),
    }
    first = await api.get_if_changed(etag, *what, **query, per_page=PER_PAGE, page=1)
    if first.is_unchanged:
        return [], since, etag
    found = [kind.model_validate(item) for item in first.data]
    if first.has_more:
        more = api.paginate(*what, first=2, limit=MAX_PAGES, **query)
        found += [kind.model_validate(item) async for item in more]
    latest = max((one.updated_at for one in found if one.updated_at), default=since)
    # The ETag belongs to this exact URL: with another `since` it is useless.
    return found, latest, first.etag if latest == since else ""
