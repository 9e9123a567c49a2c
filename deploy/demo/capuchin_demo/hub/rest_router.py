"""Finds the operation, authenticates, applies faults."""

from __future__ import annotations

import asyncio
import hashlib
import secrets
from collections.abc import Mapping
from email.utils import formatdate
from typing import TYPE_CHECKING
from urllib.parse import parse_qsl

from starlette.requests import Request
from starlette.responses import Response

from capuchin_demo.hub import rest_checks, rest_git, rest_issues, rest_pulls, rest_repositories
from capuchin_demo.hub.faults import Refusal, not_found
from capuchin_demo.hub.rest_call import Operation, RestCall, RestResponse, match
from capuchin_demo.hub.state import Exchange, Repo
from capuchin_demo.hub.tokens import Token

if TYPE_CHECKING:
    from capuchin_demo.hub.hub import LocalHub


OPERATIONS: tuple[Operation, ...] = (
    *rest_repositories.APPS_OPERATIONS,
    *rest_repositories.OPERATIONS,
    *rest_issues.COMMENTS_OPERATIONS,
    *rest_issues.LABELS_OPERATIONS,
    *rest_pulls.REACTIONS_OPERATIONS,
    *rest_issues.OPERATIONS,
    *rest_issues.TIMELINE_OPERATIONS,
    *rest_pulls.REVIEWS_OPERATIONS,
    *rest_pulls.OPERATIONS,
    *rest_git.OPERATIONS,
    *rest_git.GITREFS_OPERATIONS,
    *rest_git.COMMITS_OPERATIONS,
    *rest_checks.OPERATIONS,
    *rest_checks.STATUSES_OPERATIONS,
    *rest_git.FALLBACK_OPERATIONS,
)


PREFIX = "/api/v3"

MAX_BODY = 40 * 1024 * 1024
"""In bytes; GitHub accepts blobs up to 40 MB."""


class RestRouter:
    """Handles everything under `/api/v3`."""

    def __init__(self, hub: LocalHub) -> None:
        self._hub = hub

    async def handle(self, request: Request) -> Response:
        """Handle one request; errors become responses."""
        raw = await request.body()
        path = _raw_path(request)
        token: Token | None = None
        answered = False
        try:
            token = self._find_token(request)
            answer = await self._dispatch(request, path, raw, token)
            answered = True
        except Refusal as refusal:
            answer = RestResponse(refusal.status, refusal.body(), refusal.headers)
            answered = True
        except asyncio.CancelledError:
            answered = True
            raise
        finally:
            if not answered:
                self._hub.unexpected.append(f"{request.method} {path} broke the hub")
        answer = self._add_headers(_apply_etag(request, answer, self._hub, token))
        self._record(request, path, raw, answer, token)
        return Response(answer.content(), answer.status, dict(answer.headers))

    async def _dispatch(
        self, request: Request, path: str, raw: bytes, token: Token | None
    ) -> RestResponse:
        found = match(OPERATIONS, request.method, path)
        if found is None:
            self._hub.unexpected.append(f"{request.method} {path}")
            raise Refusal(501, f"This hub has no operation {request.method} {path}")
        if len(raw) > MAX_BODY:
            raise Refusal(413, "Payload too large")
        fault = self._hub.faults.take(request.method, path)
        if fault is not None:
            await asyncio.sleep(fault.delay_s)
        instead = fault.refusal() if fault is not None else None
        if instead is not None and fault is not None and not fault.after_effect:
            raise instead
        query = dict(parse_qsl(request.url.query, keep_blank_values=True))
        entry, parts = found
        call = RestCall(
            self._hub, request.method, path, parts, query, dict(request.headers), raw, token
        )
        answer = await self._run_operation(entry, call)
        if instead is not None:
            raise instead
        return answer

    async def _run_operation(self, entry: Operation, call: RestCall) -> RestResponse:
        if entry.app:
            self._hub.tokens.verify_app_jwt(
                _parse_credentials(call.headers.get("authorization", ""))
            )
            return await entry.handler(call)
        if entry.open:
            return await entry.handler(call)
        if call.token is None:
            return await self._run_public(entry, call)
        if not call.path.startswith("/rate_limit"):
            self._hub.limit.spend()
        if "owner" in call.parts:
            call.authorized_repo = self._find_visible_repo(call.parts, call.token)
            if entry.needs and not call.token.is_allowed(call.authorized_repo, entry.needs):
                raise permission_refusal(entry.needs)
        return await entry.handler(call)

    async def _run_public(self, entry: Operation, call: RestCall) -> RestResponse:
        """Handle a request without a token: 401 in private mode, else public data may be read."""
        repo = self._hub.find_repo("/".join(call.parts.get(p, "") for p in ("owner", "repo")))
        if self._hub.private_mode or call.method != "GET":
            raise Refusal(401, "Requires authentication")
        if repo is None or repo.private:
            raise not_found()
        self._hub.limit.spend()
        call.authorized_repo = repo
        return await entry.handler(call)

    def _find_visible_repo(self, parts: Mapping[str, str], token: Token) -> Repo:
        repo = self._hub.find_repo(f"{parts['owner']}/{parts['repo']}")
        if repo is None or not token.can_see(repo):
            raise not_found()
        return repo

    def _find_token(self, request: Request) -> Token | None:
        """The token; None without credentials and for the App's JWT, which the operation checks."""
        value = _parse_credentials(request.headers.get("authorization", ""))
        if not value or value.count(".") == 2:
            return None
        token = self._hub.tokens.find(value)
        if token is None:
            raise Refusal(401, "Bad credentials")
        return token

    def _add_headers(self, answer: RestResponse) -> RestResponse:
        headers = {
            "content-type": "application/json; charset=utf-8",
            "date": formatdate(usegmt=True),
            "x-github-request-id": secrets.token_hex(12).upper(),
            "x-github-media-type": "github.v3; format=json",
            **self._hub.limit.headers(),
            **answer.headers,
        }
        if answer.status in (204, 304):
            del headers["content-type"]
        return RestResponse(answer.status, answer.body, headers)

    def _record(
        self, request: Request, path: str, raw: bytes, answer: RestResponse, token: Token | None
    ) -> None:
        installation = token.installation.id if token and token.installation else None
        self._hub.record(
            Exchange(
                "rest",
                request.method,
                path,
                tuple(parse_qsl(request.url.query, keep_blank_values=True)),
                dict(request.headers),
                raw,
                answer.status,
                dict(answer.headers),
                answer.content(),
                token.actor.login if token else None,
                installation,
            )
        )


def _apply_etag(
    request: Request, answer: RestResponse, hub: LocalHub, token: Token | None
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
            hub.limit.refund()
        return RestResponse(304, None, {"etag": etag})
    vary = {"etag": etag, "vary": "Accept, Authorization"}
    return RestResponse(200, answer.body, {**answer.headers, **vary})


def permission_refusal(needs: str) -> Refusal:
    """403: the token lacks a permission that the operation needs."""
    accepted = needs.replace(":", "=").replace("|", "; ")
    return Refusal(
        403,
        "Resource not accessible by integration",
        headers={"x-accepted-github-permissions": accepted},
    )


def _parse_credentials(header: str) -> str:
    scheme, _, value = header.partition(" ")
    return value.strip() if scheme.lower() in ("bearer", "token") else ""


def _raw_path(request: Request) -> str:
    """The path below `/api/v3`, still encoded: `%2F` is not a slash."""
    raw: bytes = request.scope.get("raw_path") or request.scope["path"].encode()
    return raw.split(b"?")[0].decode("ascii", "replace").removeprefix(PREFIX) or "/"
