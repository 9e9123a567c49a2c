"""Pull requests."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from datetime import datetime
from typing import Final

from bot.github.changes import touched
from bot.github.errors import Forbidden, NotFound, Unprocessable
from bot.github.http import PER_PAGE
from bot.github.models import (
    CommentFacts,
    CommitFacts,
    Cursor,
    LineCommentFacts,
    PullRequestFacts,
    ReviewFacts,
)
from bot.github.reactions import Reactions
from bot.github.repository_api import Scope

COMMENT_PAGES: Final = 5
"""At most 500 comments or reviews of a pull request are read."""
LISTED_PAGES: Final = 5
"""At most 500 pull requests of a repository are looked through."""
READY: Final = (
    "mutation($id: ID!) { markPullRequestReadyForReview(input: {pullRequestId: $id}) "
    "{ pullRequest { isDraft } } }"
)


class Pulls:
    """Raises as `Wire.send` does unless said otherwise."""

    def __init__(self, scope: Scope, owner: str) -> None:
        self._scope = scope
        self._owner = owner

    async def get(self, number: int) -> PullRequestFacts | None:
        """None when there is no pull request of this number."""
        try:
            return PullRequestFacts.model_validate(await self._scope.get("pulls", number))
        except NotFound:
            return None

    async def describe(self, number: int, body: str) -> None:
        """Replace what its description says."""
        await self._scope.send("PATCH", "pulls", number, json={"body": body})

    async def forked_at(self, base: str, head: str) -> str | None:
        """The commit where the history of `head` left that of `base`; None where they share none.

        Both are branches or commits that the repository, or a fork of it, has.
        """
        try:
            found = await self._scope.get("compare", f"{base}...{head}")
        except NotFound:
            return None
        return str(found["merge_base_commit"]["sha"])

    async def find(self, branch: str, marker: str) -> PullRequestFacts | None:
        """Our pull request from `branch`: an open one, or a closed one that holds `marker`.

        A closed one without the marker belongs to an earlier branch of the same name.
        """
        listed = self._scope.pages("pulls", limit=1, head=f"{self._owner}:{branch}", state="all")
        async for item in listed:
            found = PullRequestFacts.model_validate(item)
            ours = found.head_branch == branch
            if ours and (found.state == "open" or marker in (found.body or "")):
                return found
        return None

    async def open_once(
        self, *, branch: str, base: str, title: str, body: str, marker: str, draft: bool = True
    ) -> PullRequestFacts:
        """The draft pull request from `branch`, made when there is none yet.

        Where drafts are not offered (private repositories of free plans), an ordinary one.
        """
        assert marker in body

        async def find() -> PullRequestFacts | None:
            return await self.find(branch, marker)

        async def create() -> PullRequestFacts:
            fields = {"title": title, "body": body, "head": branch, "base": base}
            try:
                made = await self._scope.send("POST", "pulls", json={**fields, "draft": draft})
            except Unprocessable:
                if not draft or await find() is not None:
                    raise
                made = await self._scope.send("POST", "pulls", json=fields)
            return PullRequestFacts.model_validate(made)

        return await self._scope.once(find, create)

    async def close(self, number: int) -> None:
        """Close it without merging; fine when it is closed."""
        await self._scope.send("PATCH", "pulls", number, json={"state": "closed"})

    async def mark_ready(self, node_id: str) -> None:
        """No draft any more; fine when it is none.

        docs.github.com/graphql/reference/mutations#markpullrequestreadyforreview
        """
        await self._scope.graphql(READY, {"id": node_id})

    async def since(self, moment: datetime) -> tuple[list[PullRequestFacts], bool]:
        """Everybody's opened since, newest first; whether there may be more than are read."""
        listed = self._scope.pages(
            "pulls", limit=LISTED_PAGES, state="all", sort="created", direction="desc"
        )
        found: list[PullRequestFacts] = []
        async for item in listed:
            one = PullRequestFacts.model_validate(item)
            if one.created_at is not None and one.created_at < moment:
                return found, False
            found.append(one)
        return found, len(found) == LISTED_PAGES * PER_PAGE

    async def commits(self, number: int) -> list[CommitFacts]:
        """Those on its branch, oldest first; GitHub tells at most 250."""
        listed = self._scope.pages("pulls", number, "commits", limit=3)
        return [CommitFacts.model_validate(item) async for item in listed]

    async def reviews(self, number: int) -> AsyncIterator[ReviewFacts]:
        """Oldest first."""
        async for item in self._scope.pages("pulls", number, "reviews", limit=COMMENT_PAGES):
            yield ReviewFacts.model_validate(item)

    async def line_comments(self, number: int) -> AsyncIterator[LineCommentFacts]:
        """Comments on lines, oldest first."""
        async for item in self._scope.pages("pulls", number, "comments", limit=COMMENT_PAGES):
            yield LineCommentFacts.model_validate(item)

    async def commented(self, cursor: Cursor, since: datetime) -> tuple[list[CommentFacts], Cursor]:
        """Comments on lines of all pull requests, from `since` on; where to go on the next time.

        Where nothing was written this costs nothing of the rate limit.
        """
        etag = cursor.lines_etag if since == cursor.lines_since else ""
        found, latest, etag = await touched(
            self._scope, CommentFacts, since, etag, "pulls", "comments"
        )
        return found, cursor.model_copy(update={"lines_since": latest, "lines_etag": etag})

    async def reply_once(
        self, number: int, thread: int, marker: str, body: str, own: Callable[[str], bool]
    ) -> None:
        """Our answer that holds `marker` in a thread of a line, made when there is none yet.

        Fine when the thread was deleted. `own` knows our login.
        """
        assert marker in body

        async def find() -> LineCommentFacts | None:
            async for comment in self.line_comments(number):
                if own(comment.author) and marker in (comment.body or ""):
                    return comment
            return None

        async def create() -> LineCommentFacts:
            where = ("pulls", number, "comments", thread, "replies")
            made = await self._scope.send("POST", *where, json={"body": body})
            return LineCommentFacts.model_validate(made)

        try:
            await self._scope.once(find, create)
        except NotFound:
            return

    def reactions(self, comment: int, own: Callable[[str], bool]) -> Reactions:
        """Ours to a comment on a line. `own` knows our login."""
        return Reactions(self._scope, own, "pulls", "comments", comment)

    async def request_review(self, number: int, login: str) -> bool:
        """False when GitHub will not: its author cannot review it, or a bot was named."""
        where = ("pulls", number, "requested_reviewers")
        try:
            await self._scope.send("POST", *where, json={"reviewers": [login]})
        except (Unprocessable, NotFound, Forbidden):
            return False
        return True

    async def head(self, number: int) -> str | None:
        """The full SHA of its head; None when there is no such pull request (any more)."""
        try:
            found = await self._scope.get("pulls", number)
        except NotFound:
            return None
        return PullRequestFacts.model_validate(found).head_sha

    async def edited(self, number: int) -> set[str]:
        """The paths that a pull request adds, changes or moves something to; at most 3000.

        Nothing when there is no such pull request (any more).
        """
        listed = self._scope.pages("pulls", number, "files", limit=30)
        try:
            return {str(item["filename"]) async for item in listed if item["status"] != "removed"}
        except NotFound:
            return set()
