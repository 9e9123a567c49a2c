"""Issues, their comments, reactions and labels."""

from __future__ import annotations

from collections.abc import AsyncIterator
from datetime import datetime
from typing import Literal

from bot.github.errors import NotFound, Unprocessable
from bot.github.facts import CommentFacts, IssueFacts, LabelledFacts, ReactionFacts
from bot.github.scope import Scope

Reaction = Literal["eyes", "rocket", "confused"]
COMMENT_PAGES = 5
"""At most 500 comments of an issue are read."""


class Issues:
    """Raises as `Wire.send` does unless said otherwise."""

    def __init__(self, scope: Scope, own_login: str) -> None:
        self._scope = scope
        self._own_login = own_login.lower()

    async def get(self, number: int) -> IssueFacts | None:
        """None when the issue was deleted, or transferred to another repository."""
        try:
            found = IssueFacts.model_validate(await self._scope.get("issues", number))
        except NotFound:
            return None
        # A transferred issue answers with a redirect that ends at its new number.
        return found if found.number == number else None

    async def comments(
        self, number: int, *, since: datetime | None = None
    ) -> AsyncIterator[CommentFacts]:
        """Comments, oldest first; `since` leaves out those last changed before it."""
        query = {} if since is None else {"since": since.strftime("%Y-%m-%dT%H:%M:%SZ")}
        listed = self._scope.pages("issues", number, "comments", limit=COMMENT_PAGES, **query)
        async for item in listed:
            yield CommentFacts.model_validate(item)

    async def find_comment(
        self, number: int, marker: str, *, since: datetime | None = None
    ) -> CommentFacts | None:
        """Our own comment that holds `marker`; others that quote it are not it."""
        async for comment in self.comments(number, since=since):
            if self.is_own(comment.author) and marker in (comment.body or ""):
                return comment
        return None

    async def comment_once(
        self, number: int, marker: str, body: str, *, since: datetime | None = None
    ) -> CommentFacts:
        """Our comment that holds `marker`, made with `body` when there is none yet."""
        assert marker in body

        async def find() -> CommentFacts | None:
            return await self.find_comment(number, marker, since=since)

        async def create() -> CommentFacts:
            made = await self._scope.send("POST", "issues", number, "comments", json={"body": body})
            return CommentFacts.model_validate(made)

        return await self._scope.once(find, create)

    async def edit_comment(self, comment: int, body: str) -> bool:
        """False when the comment was deleted."""
        try:
            await self._scope.send("PATCH", "issues", "comments", comment, json={"body": body})
        except NotFound:
            return False
        return True

    async def react(self, number: int, content: Reaction) -> None:
        """Add our reaction; GitHub itself answers a second one with the first."""
        json = {"content": content}

        async def find() -> ReactionFacts | None:
            return await self._own_reaction(number, content)

        async def create() -> ReactionFacts:
            made = await self._scope.send("POST", "issues", number, "reactions", json=json)
            return ReactionFacts.model_validate(made)

        await self._scope.once(find, create)

    async def unreact(self, number: int, content: Reaction) -> None:
        """Take our reaction back; fine when it is not there."""
        found = await self._own_reaction(number, content)
        if found is None:
            return
        try:
            await self._scope.send("DELETE", "issues", number, "reactions", found.id)
        except NotFound:
            return

    async def remove_label(self, number: int, label: str) -> None:
        """Fine when the label is not on the issue."""
        try:
            await self._scope.send("DELETE", "issues", number, "labels", label)
        except NotFound:
            return

    async def ensure_label(self, label: str, *, color: str, description: str) -> None:
        """Make the repository have a label of this name."""
        body = {"name": label, "color": color, "description": description}
        try:
            await self._scope.get("labels", label)
        except NotFound:
            try:
                await self._scope.send("POST", "labels", json=body)
            except Unprocessable:  # made by someone else meanwhile
                return

    async def find_labelled(self, label: str) -> AsyncIterator[IssueFacts]:
        """Open issues that carry the label; pull requests are left out."""
        async for item in self._scope.pages("issues", limit=3, state="open", labels=label):
            found = IssueFacts.model_validate(item)
            if found.pull_request is None:
                yield found

    async def labelled_by(self, number: int, label: str) -> tuple[str, datetime] | None:
        """Login of who last put the label on the issue, and when."""
        last: tuple[str, datetime] | None = None
        async for event in self._scope.pages("issues", number, "events"):
            found = LabelledFacts.model_validate(event)
            named = found.event == "labeled" and found.label.lower() == label.lower()
            if named and found.actor and found.created_at:
                last = (found.actor, found.created_at)
        return last

    def is_own(self, login: str) -> bool:
        return login.lower() == self._own_login

    async def _own_reaction(self, number: int, content: Reaction) -> ReactionFacts | None:
        listed = self._scope.pages("issues", number, "reactions", content=content)
        async for item in listed:
            found = ReactionFacts.model_validate(item)
            if found.content == content and self.is_own(found.author):
                return found
        return None
