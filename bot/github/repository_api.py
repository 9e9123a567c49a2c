"""The client, restricted to one repository and its credential."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import suppress
from typing import Any, TypeVar

from bot.github.errors import GitHubError, WritesSpent
from bot.github.http import ApiResponse, GitHubClient, api_path, find_or_create
from bot.github.tokens import InstallationCredential
from bot.github.write_budget import MINOR_SHARE, WriteBudget

T = TypeVar("T")


class RepositoryApi:
    """Every path starts with `/repos/OWNER/NAME`; every segment is quoted.

    All methods raise a `GitHubError` if GitHub is unavailable or refuses the request.
    """

    def __init__(
        self,
        client: GitHubClient,
        credential: InstallationCredential,
        owner: str,
        name: str,
        *,
        writes: WriteBudget | None = None,
        about: int = 0,
        share: float = 1,
    ) -> None:
        """`share` is the part of `writes` that may be spent here.

        When all are spent, a notice of it goes to the issue `about`.
        """
        self._client = client
        self._writes = writes
        self._about = about
        self._share = share
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
        minor: bool = False,
    ) -> Any:
        """The response's JSON; None without a body. A `minor` write leaves writes for others."""
        if method != "GET":
            await self.count_write(minor=minor)
        answer = await self._client.send(
            method,
            api_path(*self._root, *segments),
            self.credential,
            json=json,
            params=params or None,
        )
        return answer.data

    async def count_write(self, *, minor: bool = False) -> None:
        """Count a write, of ours or of git's, that is about to happen.

        Raises:
            WritesSpent: there were too many in this hour.
        """
        if self._writes is None:
            return
        share = min(self._share, MINOR_SHARE) if minor else self._share
        seconds = await self._writes.take(share)
        if not seconds:
            return
        if share == 1 and self._about and (notice := await self._writes.claim_notice(seconds)):
            path = api_path(*self._root, "issues", self._about, "comments")
            with suppress(GitHubError):  # such as a locked issue
                await self._client.send("POST", path, self.credential, json={"body": notice})
        raise WritesSpent("the writes of this hour are spent", retry_after=seconds)

    async def query_graphql(self, query: str, variables: Mapping[str, Any]) -> Any:
        """The `data` of a GraphQL query or of an idempotent mutation."""
        if query.startswith("mutation"):
            await self.count_write()
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
