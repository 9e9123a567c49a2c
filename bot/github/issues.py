"""Issues, their comments, reactions and labels."""

from collections.abc import AsyncIterator, Sequence
from datetime import datetime
from functools import partial

from bot.data.github_facts import (
    CommentFacts,
    Cursor,
    EditFacts,
    EditorFacts,
    IssueFacts,
    LabelEventFacts,
    LinkedPull,
    TimelineFacts,
)
from bot.data.run import Login
from bot.errors import NotFound
from bot.github.http import PER_PAGE
from bot.github.repository_api import Reactions, RepositoryApi, list_changed
from pipeline.data.types import CommitSha
from sandbox.frozen import replace

LAST_EDIT_QUERY = (
    "query($id: ID!) { node(id: $id) { ... on Issue { lastEditedAt "
    "timelineItems(itemTypes: [RENAMED_TITLE_EVENT], last: 1) "
    "{ nodes { ... on RenamedTitleEvent { createdAt } } } } } }"
)
BODY_HTML_QUERY = "query($id: ID!) { node(id: $id) { ... on Issue { bodyHTML } } }"
EDITOR_QUERY = "query($id: ID!) { node(id: $id) { ... on Comment { editor { login } } } }"
COMMENT_PAGES = 5
"""Limits reading to 500 comments of an issue."""
MARKER_PAGES = 100
"""The same where one of ours is looked for, whatever others wrote before it."""


class Issues:
    """The issues of a repository.

    All methods raise a `GitHubError` if GitHub is unavailable or refuses the request.
    """

    def __init__(self, api: RepositoryApi, own_login: Login) -> None:
        self._api = api
        self._own_login = own_login.lower()

    async def get(self, number: int) -> IssueFacts | None:
        found = await self._api.find("issues", number)
        # GitHub redirects the URL of a transferred issue to its new number.
        is_there = found is not None and found["number"] == number
        return IssueFacts.model_validate(found) if is_there else None

    async def get_edit_time(self, issue: IssueFacts) -> datetime | None:
        """When the title or text was last edited; None if never.

        docs.github.com/graphql/reference/objects#issue
        """
        found = EditFacts.model_validate(
            (await self._api.query_graphql(LAST_EDIT_QUERY, {"id": issue.node_id}))["node"]
        )
        return max(filter(None, (found.body, found.title)), default=None)

    async def get_body_html(self, issue: IssueFacts) -> str:
        """The text as GitHub renders it, with addresses of pictures that are good for minutes."""
        found = await self._api.query_graphql(BODY_HTML_QUERY, {"id": issue.node_id})
        return str(found["node"]["bodyHTML"])

    async def list_comments(
        self,
        number: int,
        *,
        since: datetime | None = None,
        count: int = 0,
        pages: int = COMMENT_PAGES,
    ) -> AsyncIterator[CommentFacts]:
        """Comments, oldest first, without those last edited before `since`.

        `count` is the number of all comments: if it exceeds the limit, the latest are read.
        """
        query = {} if since is None else {"since": since.strftime("%Y-%m-%dT%H:%M:%SZ")}
        first = max(1, -(-count // PER_PAGE) - pages + 1)
        listed = self._api.paginate("issues", number, "comments", limit=pages, first=first, **query)
        async for item in listed:
            yield CommentFacts.model_validate(item)

    async def find_comment(
        self, number: int, marker: str, *, since: datetime | None = None
    ) -> CommentFacts | None:
        """Our own comment that contains `marker`; comments of others that quote it do not count."""
        async for comment in self.list_comments(number, since=since, pages=MARKER_PAGES):
            if self.is_own(comment.author) and marker in (comment.body or ""):
                return comment
        return None

    async def comment_once(
        self, number: int, marker: str, body: str, *, since: datetime | None = None
    ) -> CommentFacts:
        """Find our comment that contains `marker`, or create it with `body`."""
        assert marker in body

        async def create() -> CommentFacts:
            made = await self._api.send("POST", "issues", number, "comments", json={"body": body})
            return CommentFacts.model_validate(made)

        find = partial(self.find_comment, number, marker, since=since)
        return await self._api.find_or_create(find, create)

    async def close(self, number: int) -> None:
        """Close an issue as done."""
        done = {"state": "closed", "state_reason": "completed"}
        await self._api.send("PATCH", "issues", number, json=done)

    async def edit_comment(self, comment: int, body: str, *, minor: bool = False) -> bool:
        """Edit a comment; return False if it was deleted. A `minor` edit may be left out."""
        path, json = ("issues", "comments", comment), {"body": body}
        try:
            await self._api.send("PATCH", *path, json=json, minor=minor)
        except NotFound:
            return False
        return True

    async def find_editor(self, comment: CommentFacts) -> Login | None:
        """Who edited a comment last, which need not be its author; None if nobody is known.

        docs.github.com/graphql/reference/interfaces#comment
        """
        found = await self._api.query_graphql(EDITOR_QUERY, {"id": comment.node_id})
        return EditorFacts.model_validate(found["node"]).login

    def reactions(self, *what: str | int) -> Reactions:
        return Reactions(self._api, self.is_own, "issues", *what)

    async def create_label(self, name: str, description: str) -> None:
        json = {"name": name, "description": description, "color": "8a5a2b"}
        await self._api.find_or_create(
            lambda: self._api.find("labels", name),
            lambda: self._api.send("POST", "labels", json=json),
        )

    async def add_labels(self, number: int, labels: Sequence[str]) -> None:
        """Add labels; GitHub creates missing labels in the repository."""
        where = ("issues", number, "labels")
        await self._api.send("POST", *where, json={"labels": list(labels)})

    async def remove_label(self, number: int, label: str) -> None:
        """Remove a label if it is there; an empty `label` does nothing."""
        if not label:
            return
        try:
            await self._api.send("DELETE", "issues", number, "labels", label)
        except NotFound:
            return

    async def list_with_label(self, label: str) -> AsyncIterator[IssueFacts]:
        async for item in self._api.paginate("issues", limit=3, state="open", labels=label):
            found = IssueFacts.model_validate(item)
            if found.pull_request is None:
                yield found

    async def list_changed(self, cursor: Cursor) -> tuple[list[IssueFacts], Cursor]:
        """Issues and pull requests, open or closed, changed since `cursor`, and the next cursor.

        Without changes, this does not count against the rate limit.
        """
        found, latest, etag = await list_changed(
            self._api, IssueFacts, cursor.since, cursor.etag, "issues", state="all"
        )
        return found, replace(cursor, since=latest, etag=etag)

    async def list_changed_comments(
        self, cursor: Cursor, since: datetime
    ) -> tuple[list[CommentFacts], Cursor]:
        """Comments on all issues and pull requests changed since `since`, and the next cursor."""
        etag = cursor.comments_etag if since == cursor.comments_since else ""
        found, latest, etag = await list_changed(
            self._api, CommentFacts, since, etag, "issues", "comments"
        )
        later = {"comments_since": latest, "comments_etag": etag}
        return found, replace(cursor, **later)

    async def find_labeler(self, number: int, label: str) -> tuple[Login, datetime] | None:
        """Who last added the label to the issue, and when; None if it was the bot itself."""
        last: tuple[Login, datetime] | None = None
        async for event in self._api.paginate("issues", number, "events"):
            found = LabelEventFacts.model_validate(event)
            named = found.event == "labeled" and found.label.lower() == label.lower()
            if named and found.actor and found.created_at:
                last = None if self.is_own(found.actor) else (found.actor, found.created_at)
        return last

    async def find_merge_commit(self, number: int) -> CommitSha | None:
        """The commit by which a pull request was merged, also by a squash; None if it was not.

        https://docs.github.com/rest/using-the-rest-api/issue-event-types#merged
        """
        async for event in self._api.paginate("issues", number, "events"):
            found = LabelEventFacts.model_validate(event)
            if found.event == "merged":
                return found.commit
        return None

    async def list_linked_pulls(self, number: int) -> AsyncIterator[LinkedPull]:
        """Pull requests that mention the issue, oldest first, without duplicates.

        docs.github.com/rest/issues/timeline: "cross-referenced" events.
        """
        seen: set[str] = set()
        async for event in self._api.paginate("issues", number, "timeline", limit=COMMENT_PAGES):
            found = TimelineFacts.model_validate(event)
            pull = found.source if found.event == "cross-referenced" else None
            if pull is not None and pull.pull_request is not None and pull.html_url not in seen:
                seen.add(pull.html_url)
                yield pull

    def is_own(self, login: Login) -> bool:
        return login.lower() == self._own_login
