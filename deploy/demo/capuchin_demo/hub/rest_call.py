"""A REST call: its request and response, its operation, and the pages of a list."""

import json
import re
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, cast
from urllib.parse import unquote, urlencode

from capuchin_demo.hub.github_errors import Refusal, invalid, not_found
from capuchin_demo.hub.hub_state import State
from capuchin_demo.hub.state import Issue, Repo
from capuchin_demo.hub.tokens import Token

Json = dict[str, Any]


@dataclass(frozen=True)
class RestResponse:
    """The response. `body` is JSON unless it is bytes; None sends no body."""

    status: int
    body: Any = None
    headers: Mapping[str, str] = field(default_factory=dict[str, str])

    def content(self) -> bytes:
        """The bytes to send."""
        if self.body is None:
            return b""
        if isinstance(self.body, bytes):
            return self.body
        return json.dumps(self.body, ensure_ascii=False).encode("utf-8", "replace")

    def full_headers(self) -> dict[str, str]:
        """The headers to send."""
        kind = {} if self.body is None else {"content-type": "application/json; charset=utf-8"}
        return {**kind, **self.headers}


@dataclass
class RestCall:
    """An authorized request: its caller, operation and parameters."""

    state: State
    method: str
    path: str
    parts: Mapping[str, str]
    query: Mapping[str, str]
    headers: Mapping[str, str]
    raw: bytes
    token: Token | None
    authorized_repo: Repo | None = None

    @property
    def url(self) -> str:
        """The hub's address."""
        return self.state.url

    @property
    def repo(self) -> Repo:
        """The repository in the path; only for operations whose path has one."""
        assert self.authorized_repo is not None
        return self.authorized_repo

    @property
    def bearer(self) -> Token:
        """The token; only for operations that the App itself does not call."""
        assert self.token is not None
        return self.token

    def number(self, name: str) -> int:
        """A number in the path.

        Raises:
            Refusal: it is not a number (404).
        """
        text = self.parts[name]
        if not re.fullmatch(r"[0-9]{1,18}", text):
            raise not_found()
        return int(text)

    def issue(self) -> Issue:
        """The issue or pull request in the path.

        Raises:
            Refusal: it does not exist (404) or was deleted (410).
        """
        number = self.number("number")
        issue = self.repo.issues.get(number)
        if issue is not None:
            return issue
        if number in self.repo.deleted_numbers:
            raise Refusal(410, "This issue was deleted")
        raise not_found()

    def json(self) -> Json:
        """The body as an object.

        Raises:
            Refusal: it is not a JSON object (400).
        """
        if not self.raw:
            return {}
        try:
            body: Any = json.loads(self.raw)
        except ValueError:
            raise Refusal(400, "Problems parsing JSON") from None
        if not isinstance(body, dict):
            raise Refusal(400, "Body should be a JSON object")
        return cast("Json", body)

    def text(self, key: str, resource: str) -> str:
        """A required, non-blank text of the body.

        Raises:
            Refusal: it is missing or blank (422).
        """
        value = self.json().get(key)
        if value is None or value == "":
            raise invalid(resource, key, "missing_field")
        if not isinstance(value, str):
            raise invalid(resource, key, "invalid", f"{key} is not a string")
        return value


Handler = Callable[[RestCall], Awaitable[RestResponse]]


@dataclass(frozen=True)
class Operation:
    """An operation of the REST API."""

    method: str
    path: re.Pattern[str]
    handler: Handler
    needs: str
    """As in `Token.is_allowed`; `app`: the App's JWT; `open`: no credentials at all."""


def operation(method: str, path: str, handler: Handler, needs: str = "") -> Operation:
    """Define an operation: `{name}` matches one segment, `{name...}` the rest."""

    def group(found: re.Match[str]) -> str:
        return f"(?P<{found[1]}>{'.+' if found[2] else '[^/]+'})"

    pattern = re.sub(r"\\\{(\w+)(\\\.\\\.\\\.)?\\\}", group, re.escape(path))
    return Operation(method, re.compile(pattern), handler, needs)


def match(
    table: Sequence[Operation], method: str, raw_path: str
) -> tuple[Operation, dict[str, str]] | None:
    """The operation for a percent-encoded path, with decoded parameters."""
    for entry in table:
        if entry.method == method and (found := entry.path.fullmatch(raw_path)):
            return entry, {name: unquote(value) for name, value in found.groupdict().items()}
    return None


def paginate(call: RestCall, items: Sequence[Any], wrap: str = "") -> RestResponse:
    """One page of a list with GitHub's `Link` header. `wrap` is the key of an inner list."""
    size = min(_positive_number(call, "per_page", 30), 100)
    page = _positive_number(call, "page", 1)
    last = max(1, -(-len(items) // size))
    shown = list(items[(page - 1) * size : page * size])
    targets = {"prev": page - 1, "next": page + 1, "last": last, "first": 1}
    if page >= last:
        del targets["next"], targets["last"]
    if page == 1:
        del targets["prev"], targets["first"]
    here = f"{call.url}/api/v3{call.path}"
    links = ", ".join(
        f'<{here}?{urlencode({**call.query, "page": n})}>; rel="{name}"'
        for name, n in targets.items()
    )
    body = {"total_count": len(items), wrap: shown} if wrap else shown
    return RestResponse(200, body, {"link": links} if links else {})


def _positive_number(call: RestCall, name: str, default: int) -> int:
    text = call.query.get(name, "")
    return max(1, int(text)) if re.fullmatch(r"[0-9]{1,9}", text) else default
