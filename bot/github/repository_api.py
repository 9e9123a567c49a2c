"""The client, restricted to one repository and its credential."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from typing import Any, TypeVar

from bot.github.http import ApiResponse, GitHubClient, api_path, find_or_create
from bot.github.tokens import InstallationCredential

T = TypeVar("T")


class RepositoryApi:
    """Every path starts with `/repos/OWNER/NAME`; every segment is quoted.

    All methods raise a `GitHubError` if GitHub is unavailable or refuses the request.
    """

    def __init__(
        self, client: GitHubClient, credential: InstallationCredential, owner: str, name: str
    ) -> None:
        self._client = client
        self.credential = credential
        self._root = ("repos", owner, name)

    async def get(self, *segments: str | int, **params: Any) -> Any:
        return await self.send("GET", *segments, params=params)

    async def send(
        self,
        method: str,
        *segments: str | int,
        json: Mapping[str, Any] | None = None,
        params: Mapping[str, Any] | None = None,
    ) -> Any:
        """The response's JSON; None without a body."""
        answer = await self._client.send(
            method,
            api_path(*self._root, *segments),
            self.credential,
            json=json,
            params=params or None,
        )
        return answer.data

    async def query_graphql(self, query: str, variables: Mapping[str, Any]) -> Any:
        """The `data` of a GraphQL query or of an idempotent mutation."""
        return await self._client.query_graphql(query, variables, self.credential)

    async def get_if_changed(self, etag: str, *segments: str | int, **params: Any) -> ApiResponse:
        """A GET whose response has content only if it differs from the version `etag`."""
        where = api_path(*self._root, *segments)
        return await self._client.send("GET", where, self.credential, params=params, etag=etag)

    async def find_or_create(
        self, find: Callable[[], Awaitable[T | None]], create: Callable[[], Awaitable[T]]
    ) -> T:
        """The result of `find`, or of `create` if there is none; see `find_or_create`."""
        return await find_or_create(find, create, pause=self._client.pause)

    def paginate(
        self,
        *segments: str | int,
        limit: int = 10,
        items: str | None = None,
        first: int = 1,
        **params: Any,
    ) -> AsyncIterator[dict[str, Any]]:
        """The objects of a list, at most `limit` pages; see `GitHubClient.paginate`."""
        return self._client.paginate(
            api_path(*self._root, *segments),
            self.credential,
            params=params,
            limit=limit,
            items=items,
            first=first,
        )
