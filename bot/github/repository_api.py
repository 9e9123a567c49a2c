"""The client of one repository; reactions and lists of changes."""

from collections.abc import Callable, Mapping
from contextlib import AbstractAsyncContextManager, suppress
from datetime import datetime
from functools import partial
from typing import Any, Final, Literal, Protocol, TypeVar

from bot.data.github_facts import CommentFacts, IssueFacts, ReactionFacts
from bot.data.run import Login
from bot.errors import GitHubError, NotFound, RateLimited, WritesSpent
from bot.github.credentials import InstallationCredential
from bot.github.http import GitHubClient, api_path

MINOR_SHARE: Final = 0.5
"""The part of the budget for what may wait: progress, and what strangers can cause."""


class WriteBudget(Protocol):
    """How often we may write to an owner's repositories: GitHub blocks who writes too often."""

    async def take(self, share: float, *, creates: bool) -> float:
        """Count a write. 0, or the seconds until there is another, if `share` of all is spent.

        `creates`: it creates what people see, of which a minute has few.
        """
        ...

    async def block(self, seconds: float) -> None:
        """Let nobody write for so long: GitHub has limited the installation."""
        ...

    async def get_block(self) -> float:
        """The seconds for which nobody may write; 0 for none."""
        ...

    async def claim_notice(self, seconds: float) -> str:
        """The notice that writes go on in so many seconds; empty if it was claimed before."""
        ...


OpenWriteBudget = Callable[[int], AbstractAsyncContextManager[WriteBudget]]
"""For the id of an installation."""


async def check_block(writes: WriteBudget) -> None:
    """Raises RateLimited: an answer to any run or worker has limited the installation.

    Calls in spite of a limit may get the App banned:
    https://docs.github.com/rest/using-the-rest-api/best-practices-for-using-the-rest-api
    """
    if seconds := await writes.get_block():
        raise RateLimited("GitHub limits this installation", retry_after=seconds)


class RepositoryApi(GitHubClient):
    """The client below `/repos/OWNER/NAME`, which counts writes.

    All methods raise a `GitHubError` if GitHub is unavailable or refuses the request.
    """

    credential: InstallationCredential
    writes: WriteBudget | None = None
    about: int = 0
    """When all `writes` are spent, a notice of it goes to this issue."""
    share: float = 1
    """The part of `writes` that may be spent here."""

    async def get_user(self, login: Login) -> Any:
        return (await self.request("GET", api_path("users", login))).json()

    async def send(
        self,
        method: str,
        *segments: str | int,
        json: Mapping[str, Any] | None = None,
        minor: bool = False,
    ) -> Any:
        """The response's JSON; None without a body. A `minor` write leaves writes for others."""
        creates = method == "POST" and segments[0] != "git" and segments[-1] != "reactions"
        await self.count_write(minor=minor, creates=creates)
        return await super().send(method, *segments, json=json)

    async def count_write(self, *, minor: bool = False, creates: bool = False) -> None:
        """Count a write, of ours or of git's, that is about to happen.

        Raises:
            WritesSpent: there were too many in this minute or hour.
            RateLimited: GitHub limits the installation.
        """
        if self.writes is None:
            return
        await check_block(self.writes)
        share = min(self.share, MINOR_SHARE) if minor else self.share
        seconds = await self.writes.take(share, creates=creates)
        if not seconds:
            return
        if share == 1 and self.about and (notice := await self.writes.claim_notice(seconds)):
            with suppress(GitHubError):  # such as a locked issue
                await super().send("POST", "issues", self.about, "comments", json={"body": notice})
        raise WritesSpent("the writes of this minute or hour are spent", retry_after=seconds)

    async def block(self, seconds: float) -> None:
        """Let nobody write for so long: GitHub has limited git."""
        if self.writes is not None:
            await self.writes.block(seconds)

    async def query_graphql(self, query: str, variables: Mapping[str, Any]) -> Any:
        """The `data` of a GraphQL query or of an idempotent mutation."""
        if query.startswith("mutation"):
            await self.count_write()
        return await super().query_graphql(query, variables)


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
        json = {"content": content}

        async def create() -> ReactionFacts:
            made = await self._api.send("POST", *self._path, json=json)
            return ReactionFacts.model_validate(made)

        await self._api.find_or_create(partial(self._find_own, content), create)

    async def remove(self, content: Reaction) -> None:
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


Found = TypeVar("Found", IssueFacts, CommentFacts)


async def list_changed(
    api: RepositoryApi, kind: type[Found], since: datetime, etag: str, *what: str, **query: str
) -> tuple[list[Found], datetime, str]:
    """The objects changed since `since`, oldest first, with the moment and ETag for the next call.

    Raises:
        GitHubError: GitHub is unavailable or refuses the request.
    """
    params: dict[str, Any] = {
        **query,
        "sort": "updated",
        "direction": "asc",
        "since": since.strftime("%Y-%m-%dT%H:%M:%SZ"),
    }
    found: list[Found] = []
    etags: list[str] = []
    async for page in api.list_pages(*what, etag=etag, **params):
        if page.status_code == 304:
            return [], since, etag
        found += [kind.model_validate(item) for item in page.json()]
        etags.append(page.headers.get("etag", ""))
    latest = max((one.updated_at for one in found if one.updated_at), default=since)
    # The ETag belongs to this exact URL: with another `since` it is useless.
    return found, latest, etags[0] if latest == since else ""
