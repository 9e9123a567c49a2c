"""Sends one request: quoted paths, retries, translated errors, observers.

This is the low level of githubkit without its generated methods: those put path parameters into
the URL unquoted (a label `..` would name the issue itself), and their response models are strict
(107 of GitHub's 329 example payloads do not parse).
"""

import asyncio
import logging
import re
import ssl
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Mapping
from functools import cache
from typing import Any, Final, Self, TypeVar, cast
from urllib.parse import quote

import httpx
import stamina.instrumentation
from githubkit import GitHub, Response
from githubkit.auth import BaseAuthStrategy
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
from sandbox.connection_errors import connection_cause
from sandbox.observation import Event, Kind, observe

T = TypeVar("T")
TIMEOUT_SECONDS = 30.0
MAX_WAIT_SECONDS = 20.0
"""The longest wait for a rate limit inside a call; the sweep retries after a longer one."""
MAX_TRIES = 4
SAFE_TO_REPEAT = frozenset({"GET", "PUT", "PATCH", "DELETE"})
"""Idempotent methods. A POST is never repeated: it could create a duplicate."""
PER_PAGE = 100
MAX_PAGES: Final = 100
"""Of a list that is read to its end."""
MAX_KEPT: Final = 1000

# By default structlog would print each retry to standard output, among a command's results. As
# records of the standard library they reach the log of a server or a worker, and nothing else.
logger = logging.getLogger(__name__)


def _log_retry(details: stamina.instrumentation.RetryDetails) -> None:
    why, wait = details.caused_by, details.wait_for
    keys = {"waits_for": "github", "why": f"{why}", "wait": round(wait, 1)}
    logger.warning("%s; again in %.1f s", why, wait, extra=keys)


stamina.instrumentation.set_on_retry_hooks([_log_retry])


class GitHubAuth(httpx.Auth, BaseAuthStrategy):
    """Authorizes each request; after a 401, which had no effect, once more with a new header."""

    requires_response_body = True

    async def get_header(self) -> str:
        """The Authorization header's value; empty to send none."""
        raise NotImplementedError

    def discard(self, value: str, refused: GitHubError) -> bool:
        """GitHub answered 401 to this header; return True if a new header may work.

        Raises:
            GitHubMisconfigured: no header can, before the operator corrects the App's settings.
        """
        del value, refused
        return False

    def get_auth_flow(self, github: object) -> httpx.Auth:
        del github
        return self

    async def async_auth_flow(
        self, request: httpx.Request
    ) -> AsyncGenerator[httpx.Request, httpx.Response]:
        for last in (False, True):
            if value := await self.get_header():
                request.headers["Authorization"] = value
            answer = yield request
            if last or answer.status_code != 401:
                return
            await answer.aread()
            call = f"{request.method} {request.url.path}"
            if not self.discard(value, read_refusal(call, _read_answer(answer))):
                return


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


@cache
def ssl_context() -> ssl.SSLContext:
    """The system's certificate authorities; reading them is the slowest part of a new client."""
    return ssl.create_default_context()


KeptPages = dict[tuple[GitHubAuth, str, int], Response[Any]]
"""Pages of lists by who read them, as each sees another list: for requests with their ETags."""


class GitHubClient:
    """A GitHub as somebody sees it, or what lies below a path there, such as a repository.

    It has connections of its own: use it as `async with`, in one task and its children. Every
    segment of a path is quoted.

    All methods raise:
        GitHubUnavailable: GitHub does not respond, or limits the rate; worth a retry.
        NotFound, Forbidden, Unprocessable: GitHub refused the request.
    """

    def __init__(
        self,
        github_url: str,
        auth: GitHubAuth,
        *root: str | int,
        pause: float = 0.5,
        transport: httpx.AsyncBaseTransport | None = None,
    ) -> None:
        self.on_limited: Callable[[float], Awaitable[None]] | None = None
        """Is told for how many seconds GitHub wants no more calls."""
        self._github = GitHub(
            auth,
            base_url=api_root(github_url),
            timeout=TIMEOUT_SECONDS,
            ssl_verify=ssl_context(),
            user_agent="capuchin",
            # githubkit also repeats a POST after a 5xx, and sleeps up to an hour for a rate limit.
            auto_retry=False,
            async_transport=transport,
            # An in-memory SQLite would cost 35 ms for each client; we send ETags where it pays.
            http_cache=False,
            # The default cache is shared by all clients of the process, also of other servers.
            cache_strategy=MemCacheStrategy(),
        )
        self._auth = auth
        self._root = root
        self._transport = transport
        self._api_root = api_root(github_url)
        self._graphql_url = graphql_url(github_url)
        self._headers = {"X-GitHub-Api-Version": API_VERSION}
        self._pause = pause

    async def __aenter__(self) -> Self:
        await self._github.__aenter__()
        return self

    async def __aexit__(self, *exc: object) -> None:
        await self._github.__aexit__()

    async def request(
        self,
        method: str,
        path: str,
        *,
        json: Mapping[str, Any] | None = None,
        params: Mapping[str, Any] | None = None,
        etag: str = "",
    ) -> Response[Any]:
        """Send once, or up to `MAX_TRIES` times if the method is idempotent.

        With an `etag` the response may be 304, which does not count against the rate limit.
        """
        tries = MAX_TRIES if method in SAFE_TO_REPEAT else 1
        async for attempt in _retry(tries, self._pause):
            with attempt:
                response = await self._send_once(method, path, json, params, etag)
                if method != "GET":
                    log_act(f"{method} {path}")
                return response
        raise AssertionError("the last attempt returns or raises")

    async def send(
        self, method: str, *segments: str | int, json: Mapping[str, Any] | None = None
    ) -> Any:
        """The response's JSON; None without a body."""
        response = await self.request(method, api_path(*self._root, *segments), json=json)
        return response.json() if response.content else None

    async def get(self, *segments: str | int, **params: Any) -> Any:
        path = api_path(*self._root, *segments)
        return (await self.request("GET", path, params=params or None)).json()

    async def find(self, *segments: str | int, **params: Any) -> Any:
        """As `get`; None where nothing is there."""
        try:
            return await self.get(*segments, **params)
        except NotFound:
            return None

    async def read_tail(self, *segments: str | int, most: int) -> str:
        """The last `most` bytes of a text that GitHub keeps elsewhere, such as a log.

        However long it is, no more than that is kept. Only GitHub itself is told who asks: the
        address to which it sends us is open for a minute to who has it.
        """
        path = api_path(*self._root, *segments)
        tail, where = b"", f"GET {path}"
        try:
            async with (
                asyncio.timeout(TAIL_SECONDS),
                httpx.AsyncClient(
                    verify=ssl_context(), transport=self._transport, timeout=TIMEOUT_SECONDS
                ) as client,
            ):
                # githubkit follows redirects, and keeps all that it reads.
                address = f"{self._api_root}{path}"
                answer = await client.get(address, headers=self._headers, auth=self._auth)
                if not answer.has_redirect_location:
                    raise read_refusal(where, _read_answer(answer))
                async with client.stream("GET", answer.headers["location"]) as text:
                    text.raise_for_status()
                    async for piece in text.aiter_bytes():
                        tail = (tail + piece)[-most:]
        except (httpx.HTTPError, TimeoutError) as error:
            raise self._no_answer(where, error) from None
        return tail.decode("utf-8", "replace")

    async def query_graphql(self, query: str, variables: Mapping[str, Any]) -> Any:
        """The `data` of a query, or of an idempotent mutation; its errors raise as those of REST.

        Their status is 200, also where GitHub limits the rate or has failed.
        """
        url, json = self._graphql_url, {"query": query, "variables": variables}
        async for attempt in _retry(MAX_TRIES, self._pause):
            with attempt:
                response = await self._send_once("POST", url, json, None, "")
                answer = response.json()
                if errors := answer.get("errors"):
                    refused = read_graphql_errors(f"POST {url}", errors, response.headers)
                    await self._note(refused)
                    raise refused
                if query.startswith("mutation"):
                    log_act(query.partition("{ ")[2].partition("(")[0], str(variables["id"]))
                return answer.get("data")
        raise AssertionError("the last attempt returns or raises")

    async def list_pages(
        self,
        *segments: str | int,
        limit: int = 10,
        first: int = 1,
        etag: str = "",
        kept: KeptPages | None = None,
        **params: Any,
    ) -> AsyncIterator[Response[Any]]:
        """At most `limit` pages of a list, from page `first` on.

        With the `etag` of the first, it may be 304. What is `kept` is asked for by its ETag.
        """
        # githubkit's `rest.paginate` takes only its generated methods, has no limit of pages, and
        # cannot start with a conditional page.
        path = api_path(*self._root, *segments)
        for number in range(first, first + limit):
            key = (self._auth, path, number)
            old = kept.get(key) if kept is not None else None
            known = old.headers.get("etag", "") if old else etag if number == first else ""
            query = {**params, "per_page": PER_PAGE, "page": number}
            page = await self.request("GET", path, params=query, etag=known)
            if old is not None and page.status_code == 304:
                page = old
            elif kept is not None:
                while len(kept) >= MAX_KEPT:
                    del kept[next(iter(kept))]
                kept[key] = page
            yield page
            if 'rel="next"' not in page.headers.get("link", ""):
                return

    async def paginate(
        self, *segments: str | int, items: str | None = None, limit: int = 10, **rest: Any
    ) -> AsyncIterator[dict[str, Any]]:
        """The objects of `list_pages`; `items` names an inner list."""
        async for page in self.list_pages(*segments, limit=limit, **rest):
            listed = page.json() if items is None else page.json()[items]
            for item in cast("list[dict[str, Any]]", listed):
                yield item

    async def find_or_create(
        self, find: Callable[[], Awaitable[T | None]], create: Callable[[], Awaitable[T]]
    ) -> T:
        """The result of `find`, or of `create` if there is none.

        A failed POST may still have had its effect, so each new attempt starts with `find`.
        """
        async for attempt in _retry(MAX_TRIES, self._pause):
            if (found := await find()) is not None:  # outside the attempt: it has its own retries
                return found
            with attempt:
                try:
                    return await create()
                except Unprocessable:
                    if (found := await find()) is not None:
                        return found
                    raise
        raise AssertionError("the last attempt returns or raises")

    async def _send_once(
        self,
        method: str,
        path: str,
        json: Mapping[str, Any] | None,
        params: Mapping[str, Any] | None,
        etag: str,
    ) -> Response[Any]:
        condition = {"If-None-Match": etag} if etag else {}
        with observe(Kind.GITHUB_CALL, method=method, path=path) as event:
            try:
                response = await self._github.arequest(
                    method,
                    path,
                    json=dict(json) if json is not None else None,
                    params=dict(params) if params is not None else None,
                    headers=self._headers | condition,
                )
            except RequestFailed as error:
                _note_answer(event, error.response)
                refused = read_refusal(f"{method} {path}", _read_answer(error.response))
                await self._note(refused)
                raise refused from None
            except GitHubException as error:
                if isinstance(error.__cause__, GitHubError):  # no token was to be had
                    raise error.__cause__ from None
                raise self._no_answer(f"{method} {path}", error.__cause__ or error) from None
            _note_answer(event, response)
            return response

    def _no_answer(self, call: str, cause: BaseException) -> GitHubUnavailable:
        host = httpx.URL(self._api_root).host
        why = connection_cause(cause) or f"{cause}" or type(cause).__name__
        return GitHubUnavailable(f"{call}: {host} does not answer: {why}")

    async def _note(self, refused: GitHubError) -> None:
        if isinstance(refused, RateLimited) and self.on_limited and refused.retry_after:
            await self.on_limited(refused.retry_after)


def _note_answer(event: Event, response: Response[Any]) -> None:
    event.facts["status"] = response.status_code
    GITHUB_RATE.note(response.headers)


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
