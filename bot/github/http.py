"""Sends one request: quoted paths, retries, translated errors, observers.

This is the low level of githubkit without its generated methods: those put path parameters into
the URL unquoted (a label `..` would name the issue itself), and their response models are strict
(107 of GitHub's 329 example payloads do not parse).
"""

from __future__ import annotations

import asyncio
import logging
import re
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any, Final, Protocol, TypeVar, cast
from urllib.parse import quote

import httpx
import stamina.instrumentation
from githubkit import GitHub, Response, UnauthAuthStrategy
from githubkit.cache import MemCacheStrategy
from githubkit.exception import GitHubException, RequestFailed

from bot.errors import (
    GitHubError,
    GitHubUnavailable,
    NotFound,
    RateLimited,
    Unprocessable,
    WritesSpent,
)
from bot.github.refusals import Answer, read_graphql_errors, read_refusal
from bot.telemetry.measurements import GITHUB_RATE
from sandbox.observation import Event, Kind, observe


async def observe_request(
    method: str, path: str, request: Awaitable[Response[Any]]
) -> Response[Any]:
    """Send `request`. Raises githubkit's errors."""
    with observe(Kind.GITHUB_CALL, method=method, path=path) as event:
        try:
            response = await request
        except RequestFailed as error:
            _note_answer(event, error.response)
            raise
        _note_answer(event, response)
        return response


def _note_answer(event: Event, response: Response[Any]) -> None:
    event.facts["status"] = response.status_code
    GITHUB_RATE.note(response.headers)


T = TypeVar("T")
TIMEOUT_SECONDS = 30.0
MAX_WAIT_SECONDS = 20.0
"""The longest wait for a rate limit inside a call; the sweep retries after a longer one."""
MAX_TRIES = 4
SAFE_TO_REPEAT = frozenset({"GET", "PUT", "PATCH", "DELETE"})
"""Idempotent methods. A POST is never repeated: it could create a duplicate."""
PER_PAGE = 100

# By default structlog would print each retry to standard output, among a command's results. As
# records of the standard library they reach the log of a server or a worker, and nothing else.
stamina.instrumentation.set_on_retry_hooks([stamina.instrumentation.LoggingOnRetryHook])
logging.getLogger("stamina").addHandler(logging.NullHandler())


class Credential(Protocol):
    async def get_header(self) -> str:
        """The Authorization header's value; empty to send none."""
        ...

    def discard(self, value: str, refused: GitHubError) -> bool:
        """GitHub answered 401 to this header; return True if a new header may work.

        Raises:
            GitHubMisconfigured: no header can, before the operator corrects the App's settings.
        """
        ...


def log_act(act: str, what: str = "") -> None:
    """Log that we changed something on GitHub: one line for each act, for an operator's audit.

    What is bound to the record names the run and the person who asked for it.
    """
    logging.getLogger("bot.audit").info("GitHub: %s", f"{act} {what}".rstrip())


_DATA_RESIDENCY: Final = re.compile(r"https://([a-z0-9][a-z0-9-]*)\.ghe\.com", re.IGNORECASE)
TAIL_SECONDS: Final = 60.0
"""For a whole log, of which only the end is kept."""
API_VERSION: Final = "2022-11-28"
"""The same for every GitHub, and the one that the tests' documents are of."""


def api_path(*segments: str | int) -> str:
    """A URL path of quoted segments, so that no name can change the path.

    Raises:
        NotFound: a segment is empty, `.` or `..`, which is never a name on GitHub.
    """
    for segment in segments:
        if str(segment) in ("", ".", ".."):
            raise NotFound("a name that cannot exist on GitHub")
    return "/" + "/".join(quote(str(segment), safe="") for segment in segments)


def api_root(github_url: str) -> str:
    """The address of the REST API.

    https://docs.github.com/enterprise-server/rest/quickstart for an Enterprise Server;
    https://docs.github.com/enterprise-cloud@latest/admin/data-residency for `NAME.ghe.com`.
    """
    url = github_url.rstrip("/")
    if is_github_com(url):
        return "https://api.github.com"
    if tenant := _DATA_RESIDENCY.fullmatch(url):
        return f"https://api.{tenant[1].lower()}.ghe.com"
    return f"{url}/api/v3"


def graphql_url(github_url: str) -> str:
    """On an Enterprise Server, GraphQL is not below REST."""
    return f"{api_root(github_url).removesuffix('/v3')}/graphql"


def is_github_com(github_url: str) -> bool:
    return re.fullmatch(r"https://(www\.)?github\.com/?", github_url) is not None


@dataclass(frozen=True)
class ApiResponse:
    """A response: parsed JSON (None without a body) and whether another page follows."""

    status: int
    data: Any
    has_more: bool
    etag: str = ""
    """Identifies the content, for a later request that is answered only if it has changed."""


@cache
def _ssl_context() -> ssl.SSLContext:
    """The system's certificate authorities; reading them is the slowest part of a new client."""
    return ssl.create_default_context()


class GitHubClient:
    """A connection pool to one GitHub; use as `async with`, in one task and its children.

    All methods raise:
        GitHubUnavailable: GitHub does not respond, or limits the rate; worth a retry.
        NotFound, Forbidden, Unprocessable: GitHub refused the request.
    """

    def __init__(
        self,
        github_url: str,
        *,
        pause: float = 0.5,
        transport: httpx.AsyncBaseTransport | None = None,
    ) -> None:
        self.on_limited: Callable[[float], Awaitable[None]] | None = None
        """Is told for how many seconds GitHub wants no more calls."""
        self._github = GitHub(
            # Each request carries its own header: see `credentials.py`.
            UnauthAuthStrategy(),
            base_url=api_root(github_url),
            timeout=TIMEOUT_SECONDS,
            ssl_verify=_ssl_context(),
            user_agent="capuchin",
            # githubkit also repeats a POST after a 5xx, and sleeps up to an hour for a rate limit.
            auto_retry=False,
            async_transport=transport,
            # An in-memory SQLite would cost 35 ms for each client; we send ETags where it pays.
            http_cache=False,
            # The default cache is shared by all clients of the process, also of other servers.
            cache_strategy=MemCacheStrategy(),
        )
        self._transport = transport
        self._api_root = api_root(github_url)
        self._graphql_url = graphql_url(github_url)
        self._headers = {"X-GitHub-Api-Version": API_VERSION}
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
        """Send once, or up to `MAX_TRIES` times if the method is idempotent.

        With an `etag` the response may be "unchanged", which does not count against the rate limit.
        """
        tries = MAX_TRIES if method in SAFE_TO_REPEAT else 1
        async for attempt in _retry(tries, self.pause):
            with attempt:
                response = await self._send_once(method, path, credential, json, params, etag)
                if method != "GET":
                    log_act(f"{method} {path}")
                return ApiResponse(
                    status=response.status_code,
                    data=response.json() if response.content else None,
                    has_more='rel="next"' in response.headers.get("link", ""),
                    etag=response.headers.get("etag", ""),
                )
        raise AssertionError("the last attempt returns or raises")

    async def read_tail(self, path: str, credential: Credential, *, most: int) -> str:
        """The last `most` bytes of a text that GitHub keeps elsewhere, such as a log.

        However long it is, no more than that is kept. Only GitHub itself gets the credential: the
        address to which it sends us is open for a minute to who has it.
        """
        tail, where = b"", f"GET {path}"
        given = {**self._headers, "Authorization": await credential.get_header()}
        try:
            async with (
                asyncio.timeout(TAIL_SECONDS),
                httpx.AsyncClient(
                    verify=_ssl_context(), transport=self._transport, timeout=TIMEOUT_SECONDS
                ) as client,
            ):
                # githubkit follows redirects, and keeps all that it reads.
                answer = await client.get(f"{self._api_root}{path}", headers=given)
                if not answer.has_redirect_location:
                    raise read_refusal(where, _read_answer(answer))
                async with client.stream("GET", answer.headers["location"]) as text:
                    text.raise_for_status()
                    async for piece in text.aiter_bytes():
                        tail = (tail + piece)[-most:]
        except (httpx.HTTPError, TimeoutError):
            raise GitHubUnavailable(f"{where}: no answer") from None
        return tail.decode("utf-8", "replace")

    async def query_graphql(
        self, query: str, variables: Mapping[str, Any], credential: Credential
    ) -> Any:
        """The `data` of a query, or of an idempotent mutation; its errors raise as those of REST.

        Their status is 200, also where GitHub limits the rate or has failed.
        """
        url, json = self._graphql_url, {"query": query, "variables": variables}
        async for attempt in _retry(MAX_TRIES, self.pause):
            with attempt:
                response = await self._send_once("POST", url, credential, json, None, "")
                answer = response.json()
                if errors := answer.get("errors"):
                    refused = read_graphql_errors(f"POST {url}", errors, response.headers)
                    await self._note(refused)
                    raise refused
                if query.startswith("mutation"):
                    log_act(query.partition("{ ")[2].partition("(")[0], str(variables["id"]))
                return answer.get("data")
        raise AssertionError("the last attempt returns or raises")

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
        # githubkit's `rest.paginate` takes only its generated methods, has no limit of pages, and
        # cannot start with the conditional first page of `repository_api.py`.
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
    ) -> Response[Any]:
        condition = {"If-None-Match": etag} if etag else {}
        for last in (False, True):
            value = await credential.get_header()
            try:
                request = self._github.arequest(
                    method,
                    path,
                    json=dict(json) if json is not None else None,
                    params=dict(params) if params is not None else None,
                    headers=self._headers | condition | ({"Authorization": value} if value else {}),
                )
                return await observe_request(method, path, request)
            except RequestFailed as error:
                refused = read_refusal(f"{method} {path}", _read_answer(error.response))
                # A 401 had no effect, so even a POST may be sent again with a fresh token.
                if refused.status == 401 and not last and credential.discard(value, refused):
                    continue
                await self._note(refused)
                raise refused from None
            except GitHubException:
                raise GitHubUnavailable(f"{method} {path}: no answer") from None
        raise AssertionError("the second iteration returns or raises")

    async def _note(self, refused: GitHubError) -> None:
        if isinstance(refused, RateLimited) and self.on_limited and refused.retry_after:
            await self.on_limited(refused.retry_after)


def _retry(attempts: int, pause: float) -> AsyncIterator[stamina.Attempt]:
    """Attempts with exponential waits from `pause` on, or with the wait that GitHub demands."""
    return aiter(
        stamina.retry_context(
            on=_retry_decision,
            attempts=attempts,
            timeout=None,
            wait_initial=pause,
            wait_max=MAX_WAIT_SECONDS,
            wait_jitter=pause / 4,
        )
    )


def _retry_decision(error: Exception) -> bool | float:
    """Whether to retry; a number is the wait in seconds."""
    if not isinstance(error, GitHubUnavailable) or isinstance(error, WritesSpent):
        return False
    if error.retry_after is None:
        return True
    return error.retry_after if error.retry_after <= MAX_WAIT_SECONDS else False


def _read_answer(answer: httpx.Response | Response[Any]) -> Answer:
    try:
        body: Any = answer.json()
    except ValueError:  # such as a proxy's page
        body = None
    found = cast("dict[str, Any]", body) if isinstance(body, dict) else {}
    # What exactly is wrong stands in `errors`, as sentences or as objects with one.
    errors: Any = found.get("errors")
    said = [str(found.get("message") or "")]
    for one in cast("list[Any]", errors) if isinstance(errors, list) else []:
        item = cast("dict[str, Any]", one).get("message") if isinstance(one, dict) else one
        said.append(str(item or ""))
    words = ": ".join(filter(None, said))
    return Answer(answer.status_code, words, answer.headers)


async def find_or_create(
    find: Callable[[], Awaitable[T | None]], create: Callable[[], Awaitable[T]], *, pause: float
) -> T:
    """The result of `find`, or of `create` if there is none.

    A failed POST may still have had its effect, so each new attempt starts with `find`.
    """
    async for attempt in _retry(MAX_TRIES, pause):
        if (found := await find()) is not None:  # outside the attempt: `find` has its own retries
            return found
        with attempt:
            try:
                return await create()
            except Unprocessable:
                if (found := await find()) is not None:
                    return found
                raise
    raise AssertionError("the last attempt returns or raises")


MAX_PAGES: Final = 100


class ConditionalLists:
    """Pages of lists by their credential, as each sees another list. Belongs to one process."""

    def __init__(self) -> None:
        self._pages: dict[tuple[object, str, int], ApiResponse] = {}

    async def read(
        self, client: GitHubClient, path: str, credential: Credential, *, items: str | None = None
    ) -> AsyncIterator[dict[str, Any]]:
        """The objects of a paginated list; `items` names an inner list.

        Raises:
            GitHubError: GitHub is unavailable or refuses the request.
        """
        for number in range(1, MAX_PAGES + 1):
            page = await self._read_page(client, path, credential, number)
            listed = page.data if items is None else page.data[items]
            for item in cast("list[dict[str, Any]]", listed):
                yield item
            if not page.has_more:
                return

    async def _read_page(
        self, client: GitHubClient, path: str, credential: Credential, number: int
    ) -> ApiResponse:
        key = (credential, path, number)
        kept = self._pages.get(key)
        query = {"per_page": PER_PAGE, "page": number}
        answer = await client.send(
            "GET", path, credential, params=query, etag=kept.etag if kept else ""
        )
        if kept is not None and answer.status == 304:
            return kept
        while len(self._pages) >= 1000:
            del self._pages[next(iter(self._pages))]
        self._pages[key] = answer
        return answer
