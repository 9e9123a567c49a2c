"""Our own reactions to one issue or comment."""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal

from bot.github.errors import NotFound
from bot.github.models import ReactionFacts
from bot.github.repository_api import RepositoryApi
from bot.types import Login

Reaction = Literal["eyes", "rocket", "confused", "+1"]


class Reactions:
    """Our reactions.

    All methods raise a `GitHubError` if GitHub is unavailable or refuses the request.
    """

    def __init__(
        self, api: RepositoryApi, is_own: Callable[[Login], bool], *what: str | int
    ) -> None:
        """`what` is the path of the issue or comment below the repository."""
        self._api = api
        self._is_own = is_own
        self._path = (*what, "reactions")

    async def add(self, content: Reaction) -> None:
        """Add a reaction; GitHub ignores a second one."""
        json = {"content": content}

        async def find() -> ReactionFacts | None:
            return await self._find_own(content)

        async def create() -> ReactionFacts:
            made = await self._api.send("POST", *self._path, json=json)
            return ReactionFacts.model_validate(made)

        await self._api.find_or_create(find, create)

    async def remove(self, content: Reaction) -> None:
        """Remove a reaction, if it is there."""
        found = await self._find_own(content)
        if found is None:
            return
        try:
            await self._api.send("DELETE", *self._path, found.id)
        except NotFound:
            return

    async def _find_own(self, content: Reaction) -> ReactionFacts | None:
        listed = self._api.paginate(*self._path, content=content)
        async for item in listed:
            found = ReactionFacts.model_validate(item)
            if found.content == content and self._is_own(found.author):
                return found
        return None
