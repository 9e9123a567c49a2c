"""Handles a REST call: finds the operation, authenticates, applies faults and rate limits."""

from __future__ import annotations

import hashlib
import re
import secrets
from email.utils import formatdate
from typing import Any, cast
from urllib.parse import parse_qsl, urlencode

from starlette.requests import Request
from starlette.responses import Response

from capuchin_demo.hub import (
    rest_actions,
    rest_checks,
    rest_git,
    rest_issues,
    rest_pulls,
    rest_repositories,
)
from capuchin_demo.hub.faults import Refusal, not_found
from capuchin_demo.hub.hub_state import State
from capuchin_demo.hub.rest_call import Operation, RestCall, RestResponse, match
from capuchin_demo.hub.rules import ARCHIVED
from capuchin_demo.hub.state import Repo
from capuchin_demo.hub.tokens import Token

OPERATIONS: tuple[Operation, ...] = (
    *rest_repositories.OPERATIONS,
    *rest_issues.OPERATIONS,
    *rest_pulls.OPERATIONS,
    *rest_checks.OPERATIONS,
    *rest_actions.OPERATIONS,
    *rest_git.OPERATIONS,  # last: its refs match what the others' paths have after a ref
)

PREFIX = "/api/v3"


class RestRouter:
    """Everything under `/api/v3`."""

    def __init__(self, state: State) -> None:
        self._state = state

    async def handle(self, request: Request) -> Response:
        """Handle one request; errors become responses."""
        raw = await request.body()
        # Still encoded: `%2F` is not a slash.
        encoded: bytes = request.scope.get("raw_path") or request.scope["path"].encode()
        path = encoded.split(b"?")[0].decode("ascii", "replace").removeprefix(PREFIX) or "/"
        path = _name_repository(self._state, path)
        token: Token | None = None
        try:
            token = self._find_token(request)
            answer = await self._dispatch(request, path, raw, token)
        except Refusal as refusal:
            answer = RestResponse(refusal.status, refusal.body(), refusal.headers)
        except Exception:
            self._state.unexpected.append(f"{request.method} {path} broke the hub")
            raise
        answer = _cut_removed(request, answer)
        answer = self._add_headers(_apply_etag(request, answer, self._state, token))
        content = answer.content()
        self._state.record(
            "rest", request, token, answer.status,
            path=path, body=raw, response_headers=answer.headers, response=content,
        )  # fmt: skip
        return Response(content, answer.status, dict(answer.headers))

    async def _dispatch(
        self, request: Request, path: str, raw: bytes, token: Token | None
    ) -> RestResponse:
        found = match(OPERATIONS, request.method, path)
        if found is None:
            self._state.unexpected.append(f"{request.method} {path}")
            raise Refusal(501, f"This hub has no operation {request.method} {path}")
        if len(raw) > 40 * 1024 * 1024:  # GitHub accepts blobs up to 40 MB
            raise Refusal(413, "Payload too large")
        entry, parts = found
        query = dict(parse_qsl(request.url.query, keep_blank_values=True))
        headers = dict(request.headers)
        call = RestCall(self._state, request.method, path, parts, query, headers, raw, token)
        async with self._state.faults.apply(request.method, path):
            return await self._run_operation(entry, call)

    async def _run_operation(self, entry: Operation, call: RestCall) -> RestResponse:
        if entry.needs == "app":
            authorization = call.headers.get("authorization", "")
            self._state.tokens.verify_app_jwt(_parse_credentials(authorization))
        if entry.needs in ("app", "open"):
            return await entry.handler(call)
        if call.token is None:
            return await self._run_public(entry, call)
        if not call.path.startswith("/rate_limit"):
            self._state.limit.spend()
        check_installation(call.token, writes=call.method != "GET")
        if "owner" in call.parts:
            name = f"{call.parts['owner']}/{call.parts['repo']}"
            repo = self._state.find_repo(name)
            if moved := self._state.find_moved(name):
                return _redirect(self._state, moved, call)
            if repo is None or not call.token.can_see(repo):
                raise not_found()
            call.authorized_repo = repo
            if entry.needs and not call.token.is_allowed(repo, entry.needs):
                accepted = entry.needs.replace(":", "=").replace("|", "; ")
                raise Refusal(
                    403,
                    "Resource not accessible by integration",
                    headers={"x-accepted-github-permissions": accepted},
                )
            if repo.archived and call.method != "GET":
                raise Refusal(403, ARCHIVED)
        return await entry.handler(call)

    async def _run_public(self, entry: Operation, call: RestCall) -> RestResponse:
        """Handle a request without a token: 401 in private mode, else public data may be read."""
        repo = self._state.find_repo("/".join(call.parts.get(p, "") for p in ("owner", "repo")))
        if self._state.private_mode or call.method != "GET":
            raise Refusal(401, "Requires authentication")
        if repo is None or repo.private:
            raise not_found()
        self._state.limit.spend()
        call.authorized_repo = repo
        return await entry.handler(call)

    def _find_token(self, request: Request) -> Token | None:
        """The token; None without credentials and for the App's JWT, which the operation checks."""
        value = _parse_credentials(request.headers.get("authorization", ""))
        if not value or value.count(".") == 2:
            return None
        token = self._state.tokens.find(value)
        if token is None:
            raise Refusal(401, "Bad credentials")
        return token

    def _add_headers(self, answer: RestResponse) -> RestResponse:
        headers = {
            "content-type": "application/json; charset=utf-8",
            "date": formatdate(usegmt=True),
            "x-github-request-id": secrets.token_hex(12).upper(),
            "x-github-media-type": "github.v3; format=json",
            **self._state.limit.headers(),
            **answer.headers,
        }
        if answer.status in (204, 304):
            del headers["content-type"]
        return RestResponse(answer.status, answer.body, headers)


VERSIONS = ("2022-11-28", "2026-03-10")
"""https://docs.github.com/rest/about-the-rest-api/api-versions"""


def _cut_removed(request: Request, answer: RestResponse) -> RestResponse:
    """The answer without what the API version that is asked for does not have any more.

    https://docs.github.com/rest/about-the-rest-api/breaking-changes
    """
    version = request.headers.get("x-github-api-version", VERSIONS[0])
    if version not in VERSIONS:
        refusal = Refusal(400, f"The API version {version} is not supported.")
        return RestResponse(400, refusal.body(), {})
    headers = {**answer.headers, "x-github-api-version-selected": version}
    body = answer.body if version == VERSIONS[0] else _without(answer.body, "merge_commit_sha")
    return RestResponse(answer.status, body, headers)


def _without(value: Any, name: str) -> Any:
    if isinstance(value, dict):
        fields = cast("dict[str, Any]", value)
        return {key: _without(one, name) for key, one in fields.items() if key != name}
    if isinstance(value, list):
        return [_without(one, name) for one in cast("list[Any]", value)]
    return value


def _redirect(state: State, repo: Repo, call: RestCall) -> RestResponse:
    """docs.github.com/rest/using-the-rest-api/best-practices-for-using-the-rest-api"""
    rest = "/".join(call.path.split("/")[4:])
    place = f"{state.url}{PREFIX}/repositories/{repo.id}{'/' * bool(rest)}{rest}"
    status = 301 if call.method == "GET" else 307
    query = f"?{urlencode(call.query)}" if call.query else ""
    body = {"message": "Moved Permanently", "url": place, "documentation_url": state.url}
    return RestResponse(status, body, {"location": place + query})


def _name_repository(state: State, path: str) -> str:
    """`/repositories/ID`, where redirects lead, by the repository's present name."""
    found = re.fullmatch(r"/repositories/(\d+)(/.*)?", path)
    repo = next((r for r in state.repos.values() if found and r.id == int(found[1])), None)
    return f"/repos/{repo.full_name}{found[2] or ''}" if found and repo else path


def _apply_etag(
    request: Request, answer: RestResponse, state: State, token: Token | None
) -> RestResponse:
    """Respond 304 if the caller's ETag is current, which does not count against the rate limit.

    docs.github.com/rest/using-the-rest-api/best-practices-for-using-the-rest-api. GitHub's ETag
    depends on the credential (`Vary: Authorization`), so that a renewed token needs a new one.
    """
    if request.method != "GET" or answer.status != 200:
        return answer
    asked_by = request.headers.get("authorization", "").encode()
    etag = f'W/"{hashlib.sha256(asked_by + answer.content()).hexdigest()}"'
    if request.headers.get("if-none-match") == etag:
        if token is not None or not asked_by:  # what the App's JWT asks was not counted
            state.limit.refund()
        return RestResponse(304, None, {"etag": etag})
    vary = {"etag": etag, "vary": "Accept, Authorization"}
    return RestResponse(200, answer.body, {**answer.headers, **vary})


def check_installation(token: Token, *, writes: bool) -> None:
    """Refuse what no token of its installation may do just now.

    Raises:
        Refusal: suspended, kept out by a rule, or over the limit of content (403).
    """
    one = token.installation
    if one is None:
        return
    if one.suspended_at is not None:
        raise Refusal(403, "This installation has been suspended")
    if one.blocked_by:
        raise Refusal(403, one.blocked_by)
    limit = one.content if writes else None
    if limit is None:
        return
    limit.written += 1
    if limit.written > limit.most:
        limit.refused += 1
        raise Refusal(
            403,
            "You have exceeded a secondary rate limit. Please wait a few minutes before you try "
            "again.",
            headers={"retry-after": str(limit.seconds)},
        )


def _parse_credentials(header: str) -> str:
    scheme, _, value = header.partition(" ")
    return value.strip() if scheme.lower() in ("bearer", "token") else ""
