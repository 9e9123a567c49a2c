"""Pull requests."""

from collections.abc import AsyncIterator, Callable, Mapping
from datetime import datetime
from functools import partial
from typing import Final

from bot.data.github_facts import (
    CommentFacts,
    CommitFacts,
    Cursor,
    LineCommentFacts,
    PullRequestFacts,
    ReviewFacts,
)
from bot.data.run import Login
from bot.errors import Forbidden, NotFound, Unprocessable
from bot.github.http import PER_PAGE
from bot.github.issues import MARKER_PAGES
from bot.github.repository_api import Reaction, Reactions, RepositoryApi, list_changed
from pipeline.data.types import CommitSha
from sandbox.frozen import replace

COMMENT_PAGES: Final = 5
"""At most 500 comments or reviews of a pull request are read."""
LISTED_PAGES: Final = 5
"""At most 500 pull requests of a repository are looked through."""

_IN_GRAPHQL: Final[Mapping[Reaction, str]] = {
    "eyes": "EYES", "rocket": "ROCKET", "confused": "CONFUSED", "+1": "THUMBS_UP"
}  # fmt: skip
"""https://docs.github.com/graphql/reference/enums#reactioncontent"""


class Pulls:
    """The pull requests of a repository.

    All methods raise a `GitHubError` if GitHub is unavailable or refuses the request.
    """

    def __init__(self, api: RepositoryApi, owner: str) -> None:
        self._api = api
        self._owner = owner

    async def get(self, number: int) -> PullRequestFacts | None:
        found = await self._api.find("pulls", number)
        return None if found is None else PullRequestFacts.model_validate(found)

    async def edit(self, number: int, **fields: str) -> None:
        await self._api.send("PATCH", "pulls", number, json=fields)

    async def find_fork_point(self, base: str, head: str) -> CommitSha | None:
        """The merge base of `head` and `base`; None if they share no history.

        Both are branches or commits of the repository or of a fork.
        """
        found = await self._api.find("compare", f"{base}...{head}")
        return None if found is None else CommitSha(found["merge_base_commit"]["sha"])

    async def find_merged_with(self, commit: CommitSha) -> PullRequestFacts | None:
        """The merged pull request that brought `commit`; None if it came otherwise.

        https://docs.github.com/en/rest/commits/commits#list-pull-requests-associated-with-a-commit
        """
        try:
            async for item in self._api.paginate("commits", commit, "pulls", limit=1):
                found = PullRequestFacts.model_validate(item)
                if found.merged_at:
                    return found
        except Unprocessable:  # there is no such commit
            return None
        return None

    async def find(self, branch: str, marker: str) -> PullRequestFacts | None:
        """Our pull request from `branch`: an open one, or a closed one that contains `marker`.

        A closed one without the marker belongs to an earlier branch of the same name.
        """
        listed = self._api.paginate("pulls", limit=1, head=f"{self._owner}:{branch}", state="all")
        async for item in listed:
            found = PullRequestFacts.model_validate(item)
            ours = found.head_branch == branch
            if ours and (found.state == "open" or marker in (found.body or "")):
                return found
        return None

    async def open_once(
        self, *, branch: str, base: str, title: str, body: str, marker: str, draft: bool = True
    ) -> PullRequestFacts:
        """Find our pull request from `branch`, or open it, as a draft if `draft` is set.

        Where GitHub does not offer drafts (private repositories of free plans), it is no draft.
        """
        assert marker in body
        find = partial(self.find, branch, marker)

        async def create() -> PullRequestFacts:
            fields = {"title": title, "body": body, "head": branch, "base": base}
            try:
                made = await self._api.send("POST", "pulls", json={**fields, "draft": draft})
            except Unprocessable:
                if not draft or await find() is not None:
                    raise
                made = await self._api.send("POST", "pulls", json=fields)
            return PullRequestFacts.model_validate(made)

        return await self._api.find_or_create(find, create)

    async def mark_ready(self, node_id: str) -> None:
        done = "pullRequest { isDraft }"
        await self._mutate("markPullRequestReadyForReview", "pullRequestId: $id", done, node_id)

    async def convert_to_draft(self, node_id: str) -> None:
        done = "pullRequest { isDraft }"
        await self._mutate("convertPullRequestToDraft", "pullRequestId: $id", done, node_id)

    async def react_to_review(self, node_id: str, content: Reaction) -> None:
        """React to a review, which REST cannot; GitHub ignores a second reaction."""
        given = f"subjectId: $id, content: {_IN_GRAPHQL[content]}"
        await self._mutate("addReaction", given, "reaction { content }", node_id)

    async def take_back_reaction(self, node_id: str, content: Reaction) -> None:
        given = f"subjectId: $id, content: {_IN_GRAPHQL[content]}"
        await self._mutate("removeReaction", given, "reaction { content }", node_id)

    async def _mutate(self, name: str, given: str, answer: str, node_id: str) -> None:
        """docs.github.com/graphql/reference/mutations"""
        query = f"mutation($id: ID!) {{ {name}(input: {{{given}}}) {{ {answer} }} }}"
        await self._api.query_graphql(query, {"id": node_id})

    async def list_since(self, moment: datetime) -> tuple[list[PullRequestFacts], bool]:
        listed = self._api.paginate(
            "pulls", limit=LISTED_PAGES, state="all", sort="created", direction="desc"
        )
        found: list[PullRequestFacts] = []
        async for item in listed:
            one = PullRequestFacts.model_validate(item)
            if one.created_at is not None and one.created_at < moment:
                return found, False
            found.append(one)
        return found, len(found) == LISTED_PAGES * PER_PAGE

    async def list_commits(self, number: int) -> list[CommitFacts]:
        """The commits on its branch, oldest first; GitHub lists at most 250."""
        listed = self._api.paginate("pulls", number, "commits", limit=3)
        return [CommitFacts.model_validate(item) async for item in listed]

    async def list_reviews(self, number: int) -> AsyncIterator[ReviewFacts]:
        """Reviews, oldest first: GitHub lists them in no other order."""
        async for item in self._api.paginate("pulls", number, "reviews", limit=MARKER_PAGES):
            yield ReviewFacts.model_validate(item)

    async def list_line_comments(self, number: int) -> AsyncIterator[LineCommentFacts]:
        """The latest comments on lines, newest first."""
        listed = self._api.paginate(
            "pulls", number, "comments", limit=COMMENT_PAGES, sort="created", direction="desc"
        )
        async for item in listed:
            yield LineCommentFacts.model_validate(item)

    async def list_changed_comments(
        self, cursor: Cursor, since: datetime
    ) -> tuple[list[CommentFacts], Cursor]:
        """Comments on lines of all pull requests since `since`, and the cursor for the next call.

        Without changes, this does not count against the rate limit.
        """
        etag = cursor.lines_etag if since == cursor.lines_since else ""
        found, latest, etag = await list_changed(
            self._api, CommentFacts, since, etag, "pulls", "comments"
        )
        return found, replace(cursor, lines_since=latest, lines_etag=etag)

    async def reply_once(
        self, number: int, thread: int, marker: str, body: str, is_own: Callable[[Login], bool]
    ) -> None:
        """Find our reply that contains `marker` in the thread of a line, or create it.

        Does nothing if the thread was deleted. `is_own` recognises our login.
        """
        assert marker in body

        async def find() -> LineCommentFacts | None:
            async for comment in self.list_line_comments(number):
                if is_own(comment.author) and marker in (comment.body or ""):
                    return comment
            return None

        async def create() -> LineCommentFacts:
            where = ("pulls", number, "comments", thread, "replies")
            made = await self._api.send("POST", *where, json={"body": body})
            return LineCommentFacts.model_validate(made)

        try:
            await self._api.find_or_create(find, create)
        except NotFound:
            return

    def reactions(self, comment: int, is_own: Callable[[Login], bool]) -> Reactions:
        """Our reactions to a comment on a line. `is_own` recognises our login."""
        return Reactions(self._api, is_own, "pulls", "comments", comment)

    async def request_review(self, number: int, login: Login) -> bool:
        """Request a review; return False if GitHub refuses: `login` is the author or a bot."""
        where = ("pulls", number, "requested_reviewers")
        try:
            await self._api.send("POST", *where, json={"reviewers": [login]})
        except (Unprocessable, NotFound, Forbidden):
            return False
        return True

    async def list_changed_paths(self, number: int) -> set[str]:
        """The paths that a pull request adds, changes or moves files to; at most 3,000.

        Empty if the pull request does not exist.
        """
        listed = self._api.paginate("pulls", number, "files", limit=30)
        try:
            return {str(item["filename"]) async for item in listed if item["status"] != "removed"}
        except NotFound:
            return set()
