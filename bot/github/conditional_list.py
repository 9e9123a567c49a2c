"""Lists whose pages are kept: a page that has not changed does not count against the rate limit."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any, Final, NamedTuple, cast

from bot.github.http import PER_PAGE, Credential, GitHubClient

MAX_PAGES: Final = 100
MAX_KEPT: Final = 1000
"""Pages that are kept; the oldest is dropped."""


class _Page(NamedTuple):
    etag: str
    data: Any
    has_more: bool


class ConditionalLists:
    """Pages of lists by their credential, as each sees another list. Belongs to one process."""

    def __init__(self) -> None:
        self._pages: dict[tuple[object, str, int], _Page] = {}

    async def read(
        self, client: GitHubClient, path: str, credential: Credential, *, items: str | None = None
    ) -> AsyncIterator[dict[str, Any]]:
        """The objects of a paginated list; `items` names an inner list.

        Raises:
            GitHubError: GitHub is unavailable or refuses the request.
        """
        for number in range(1, MAX_PAGES + 1):
            page = await self._read_page(client, path, credential, number)
            listed = page.data if items is None else page.data[items]
            for item in cast("list[dict[str, Any]]", listed):
                yield item
            if not page.has_more:
                return

    async def _read_page(
        self, client: GitHubClient, path: str, credential: Credential, number: int
    ) -> _Page:
        key = (credential, path, number)
        kept = self._pages.get(key)
        query = {"per_page": PER_PAGE, "page": number}
        answer = await client.send(
            "GET", path, credential, params=query, etag=kept.etag if kept else ""
        )
        if kept is not None and answer.is_unchanged:
            return kept
        while len(self._pages) >= MAX_KEPT:
            del self._pages[next(iter(self._pages))]
        self._pages[key] = _Page(answer.etag, answer.data, answer.has_more)
        return self._pages[key]
