"""Lists of what has changed since a moment; while nothing has, GitHub does not count them."""

from __future__ import annotations

from datetime import datetime
from typing import Any, Final

from bot.github.scope import Scope
from bot.github.wire import PER_PAGE

PAGES: Final = 10


async def touched(
    scope: Scope, since: datetime, etag: str, *what: str, **query: str
) -> tuple[list[dict[str, Any]], str]:
    """Those last touched since, the longest ago first, and the ETag of the answer.

    Raises as `Wire.send` does.
    """
    query |= {
        "sort": "updated",
        "direction": "asc",
        "since": since.strftime("%Y-%m-%dT%H:%M:%SZ"),
    }
    first = await scope.if_changed(etag, *what, **query, per_page=PER_PAGE, page=1)
    if first.unchanged:
        return [], etag
    found: list[dict[str, Any]] = list(first.data)
    if first.more:
        more = scope.pages(*what, first=2, limit=PAGES, **query)
        found += [item async for item in more]
    return found, first.etag
