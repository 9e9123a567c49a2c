"""The wire, narrowed to one repository and signed for it."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from typing import Any, TypeVar

from bot.github.http import Answer, Wire, find_or_create, path
from bot.github.tokens import InstallationCredential

T = TypeVar("T")


class Scope:
    """Every path begins with `/repos/OWNER/NAME`; every segment is quoted."""

    def __init__(
        self, wire: Wire, credential: InstallationCredential, owner: str, name: str
    ) -> None:
        self._wire = wire
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
        """The JSON of the answer, None where it has no body. Raises as `Wire.send` does."""
        answer = await self._wire.send(
            method,
            path(*self._root, *segments),
            self.credential,
            json=json,
            params=params or None,
        )
        return answer.data

    async def graphql(self, query: str, variables: Mapping[str, Any]) -> Any:
        """What GraphQL answers; a mutation must be one that may be repeated. Raises as `send`."""
        return await self._wire.graphql(query, variables, self.credential)

    async def if_changed(self, etag: str, *segments: str | int, **params: Any) -> Answer:
        """A GET that is answered only if it is no longer what `etag` names. Raises as `send`."""
        where = path(*self._root, *segments)
        return await self._wire.send("GET", where, self.credential, params=params, etag=etag)

    async def once(
        self, find: Callable[[], Awaitable[T | None]], create: Callable[[], Awaitable[T]]
    ) -> T:
        """See `find_or_create`."""
        return await find_or_create(find, create, pause=self._wire.pause)

    def pages(
        self,
        *segments: str | int,
        limit: int = 10,
        items: str | None = None,
        first: int = 1,
        **params: Any,
    ) -> AsyncIterator[dict[str, Any]]:
        """See `Wire.pages`."""
        return self._wire.pages(
            path(*self._root, *segments),
            self.credential,
            params=params,
            limit=limit,
            items=items,
            first=first,
        )
