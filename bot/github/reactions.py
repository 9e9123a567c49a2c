"""Our own reactions to one issue or comment."""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal

from bot.github.errors import NotFound
from bot.github.models import ReactionFacts
from bot.github.repository_api import Scope

Reaction = Literal["eyes", "rocket", "confused", "+1"]


class Reactions:
    """Raises as `Wire.send` does unless said otherwise."""

    def __init__(self, scope: Scope, is_own: Callable[[str], bool], *what: str | int) -> None:
        """`what` is the path of the issue or comment below its repository."""
        self._scope = scope
        self._is_own = is_own
        self._where = (*what, "reactions")

    async def add(self, content: Reaction) -> None:
        """GitHub itself answers a second one with the first."""
        json = {"content": content}

        async def find() -> ReactionFacts | None:
            return await self._own(content)

        async def create() -> ReactionFacts:
            made = await self._scope.send("POST", *self._where, json=json)
            return ReactionFacts.model_validate(made)

        await self._scope.once(find, create)

    async def remove(self, content: Reaction) -> None:
        """Fine when it is not there."""
        found = await self._own(content)
        if found is None:
            return
        try:
            await self._scope.send("DELETE", *self._where, found.id)
        except NotFound:
            return

    async def _own(self, content: Reaction) -> ReactionFacts | None:
        listed = self._scope.pages(*self._where, content=content)
        async for item in listed:
            found = ReactionFacts.model_validate(item)
            if found.content == content and self._is_own(found.author):
                return found
        return None
