"""One request to GitHub: its path, its retries, and errors in our own words."""

from __future__ import annotations

import asyncio
import random
import re
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any, Protocol, TypeVar, cast
from urllib.parse import quote

import httpx
from githubkit import GitHub, UnauthAuthStrategy
from githubkit.cache import MemCacheStrategy
from githubkit.exception import (
    GitHubException,
    PrimaryRateLimitExceeded,
    RateLimitExceeded,
    RequestFailed,
)

from bot.github.errors import (
    Forbidden,
    GitHubError,
    GitHubUnavailable,
    NotFound,
    Unprocessable,
)

T = TypeVar("T")
TIMEOUT_SECONDS = 30.0
MAX_WAIT_SECONDS = 20.0
"""A wait that GitHub asks for up to this long is waited here; a longer one is the sweep's."""
MAX_TRIES = 4
SAFE_TO_REPEAT = frozenset({"GET", "PUT", "PATCH", "DELETE"})
"""Methods whose second sending changes nothing. POST is repeated by nobody: it would duplicate."""
PER_PAGE = 100


class Credential(Protocol):
    """What a request is signed with."""

    async def get_header(self) -> str:
        """The Authorization header's value; empty to send none."""
        ...

    def discard(self, value: str) -> bool:
        """GitHub answered 401 to `get_header`; True when another one may be tried."""
        ...


def api_path(*segments: str | int) -> str:
    """A URL path of quoted segments, so that no name can climb out of its place.

    Raises:
        NotFound: a segment is empty, `.` or `..`: GitHub has nothing of that name.
    """
    for segment in segments:
        if str(segment) in ("", ".", ".."):
            raise NotFound("a name that GitHub cannot have")
    return "/" + "/".join(quote(str(segment), safe="") for segment in segments)


def api_root(github_url: str) -> str:
    """Where the REST API of a GitHub at `github_url` is (docs.github.com/enterprise-server)."""
    url = github_url.rstrip("/")
    return "https://api.github.com" if is_github_com(url) else f"{url}/api/v3"


def graphql_url(github_url: str) -> str:
    """Where the GraphQL API is; on an Enterprise Server it is not below the REST API."""
    if is_github_com(github_url):
        return f"{api_root(github_url)}/graphql"
    return f"{github_url.rstrip('/')}/api/graphql"


def is_github_com(github_url: str) -> bool:
    return re.fullmatch(r"https://(www\.)?github\.com/?", github_url) is not None


@dataclass(frozen=True)
class ApiResponse:
    """A response: parsed JSON (None when there is no body) and whether another page follows."""

    status: int
    data: Any
    has_more: bool
    etag: str = ""
    """Names what was answered, for asking again only if it has changed."""

    @property
    def is_unchanged(self) -> bool:
        return self.status == 304


@cache
def _ssl_context() -> ssl.SSLContext:
    """The system's authorities, read once:

    that takes longer than all else in making a `GitHubClient`.
    """
    return ssl.create_default_context()


class GitHubClient:
    """A connection pool to one GitHub; use as `async with`, in one task and its children."""

    def __init__(
        self,
        github_url: str,
        *,
        pause: float = 0.5,
        transport: httpx.AsyncBaseTransport | None = None,
    ) -> None:
        self._github = GitHub(
            UnauthAuthStrategy(),
            base_url=api_root(github_url),
            timeout=TIMEOUT_SECONDS,
            ssl_verify=_ssl_context(),
            user_agent="capuchin",
            auto_retry=False,
            async_transport=transport,
            http_cache=False,
            cache_strategy=MemCacheStrategy(),
        )
        version = "2026-03-10" if is_github_com(github_url) else "2022-11-28"
        self._graphql_url = graphql_url(github_url)
        self._headers = {"X-GitHub-Api-Version": version}
        self.pause = pause

    async def __aenter__(self) -> GitHubClient:
        await self._github.__aenter__()
        return self

    async def __aexit__(self, *exc: object) -> None:
        await self._github.__aexit__()

    async def send(
        self,
        method: str,
        path: str,
        credential: Credential,
        *,
        json: Mapping[str, Any] | None = None,
        params: Mapping[str, Any] | None = None,
        etag: str = "",
    ) -> ApiResponse:
        """Send once, or up to `SUBMIT_ATTEMPTS` times where a repetition is harmless.

        With an `etag` the answer may be that nothing has changed, which GitHub does not count.

        Raises:
            GitHubUnavailable, NotFound, Forbidden, Unprocessable: see `errors.py`.
        """
        tries = MAX_TRIES if method in SAFE_TO_REPEAT else 1
        for attempt in range(1, tries + 1):
            try:
                return await self._send_once(method, path, credential, json, params, etag)
            except GitHubUnavailable as error:
                wait = error.retry_after
                if attempt == tries or (wait is not None and wait > MAX_WAIT_SECONDS):
                    raise
                jitter = 1 + random.random() / 4  # noqa: S311 - spreads retries, guards nothing
                await asyncio.sleep(
                    wait if wait is not None else self.pause * 2 ** (attempt - 1) * jitter
                )
        raise AssertionError("every try returns or raises")

    async def query_graphql(
        self, query: str, variables: Mapping[str, Any], credential: Credential
    ) -> Any:
        """The `data` of a question, or of a mutation whose repetition is harmless.

        Raises:
            Forbidden: GitHub refuses it. GitHubUnavailable: see `errors.py`.
        """
        answer = await self.send(
            "POST", self._graphql_url, credential, json={"query": query, "variables": variables}
        )
        if answer.data.get("errors"):
            kinds = ", ".join(str(error.get("type")) for error in answer.data["errors"])
            raise Forbidden(f"POST {self._graphql_url}: {kinds}")
        return answer.data.get("data")

    async def paginate(
        self,
        path: str,
        credential: Credential,
        *,
        params: Mapping[str, Any] | None = None,
        limit: int = 10,
        items: str | None = None,
        first: int = 1,
    ) -> AsyncIterator[dict[str, Any]]:
        """The objects of a paginated list, at most `limit` pages from page `first` on.

        `items` names an inner list.
        """
        for page in range(first, first + limit):
            query = {**(params or {}), "per_page": PER_PAGE, "page": page}
            answer = await self.send("GET", path, credential, params=query)
            listed = answer.data if items is None else answer.data[items]
            for item in cast("list[dict[str, Any]]", listed):
                yield item
            if not answer.has_more:
                return

    async def _send_once(
        self,
        method: str,
        path: str,
        credential: Credential,
        json: Mapping[str, Any] | None,
        params: Mapping[str, Any] | None,
        etag: str,
    ) -> ApiResponse:
        condition = {"If-None-Match": etag} if etag else {}
        for last in (False, True):
            value = await credential.get_header()
            try:
                response = await self._github.arequest(
                    method,
                    path,
                    json=dict(json) if json is not None else None,
                    params=dict(params) if params is not None else None,
                    headers=self._headers | condition | ({"Authorization": value} if value else {}),
                )
            except RequestFailed as error:
                # A 401 had no effect, so even a POST may be sent again under a fresh token.
                if error.response.status_code == 401 and not last and credential.discard(value):
                    continue
                raise _translate_error(method, path, error) from None
            except GitHubException:
                raise GitHubUnavailable(f"{method} {path}: no answer") from None
            body = response.json() if response.content else None
            more = 'rel="next"' in response.headers.get("link", "")
            named = response.headers.get("etag", "")
            return ApiResponse(status=response.status_code, data=body, has_more=more, etag=named)
        raise AssertionError("the last try returns or raises")


def _translate_error(method: str, path: str, error: RequestFailed) -> GitHubError:
    status = error.response.status_code
    message = f"{method} {path}: {status}"
    if isinstance(error, RateLimitExceeded):
        kind = "rate" if isinstance(error, PrimaryRateLimitExceeded) else "secondary rate"
        seconds = error.retry_after.total_seconds()
        return GitHubUnavailable(f"{message} ({kind} limit)", retry_after=seconds)
    if status == 403 and "rate limit" in error.response.text[:2000].lower():
        # GitHub asks for at least a minute where it sends no header
        # (docs.github.com/rest/using-the-rest-api/rate-limits-for-the-rest-api).
        return GitHubUnavailable(f"{message} (secondary rate limit)", retry_after=60.0)
    if status >= 500 or status in (408, 429):
        return GitHubUnavailable(message)
    if status in (404, 410, 451):
        return NotFound(message)
    if status in (401, 403):
        return Forbidden(message)
    return Unprocessable(message)


async def find_or_create(
    find: Callable[[], Awaitable[T | None]], create: Callable[[], Awaitable[T]], *, pause: float
) -> T:
    """What `find` finds, else what `create` makes; `create` is repeated only after a new `find`.

    A POST that fails may have had its effect all the same, so each new try looks first.
    """
    for attempt in range(1, MAX_TRIES + 1):
        if (found := await find()) is not None:
            return found
        try:
            return await create()
        except Unprocessable:
            if (found := await find()) is not None:
                return found
            raise
        except GitHubUnavailable as error:
            if attempt == MAX_TRIES or (error.retry_after or 0) > MAX_WAIT_SECONDS:
                raise
            await asyncio.sleep(error.retry_after or pause * 2 ** (attempt - 1))
    raise AssertionError("every try returns or raises")
