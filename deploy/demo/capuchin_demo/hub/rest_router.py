"""Handles a REST call: finds the operation, and checks who asks for it."""

import logging
from collections.abc import Sequence
from urllib.parse import parse_qsl

from starlette.requests import Request
from starlette.responses import Response

from capuchin_demo.hub import rest_checks, rest_git, rest_issues, rest_pulls, rest_repositories
from capuchin_demo.hub.github_errors import Refusal, not_found
from capuchin_demo.hub.hub_state import State
from capuchin_demo.hub.rest_call import Operation, RestCall, RestResponse, match
from capuchin_demo.hub.tokens import Token

OPERATIONS: tuple[Operation, ...] = (
    *rest_repositories.OPERATIONS,
    *rest_issues.OPERATIONS,
    *rest_pulls.OPERATIONS,
    *rest_checks.OPERATIONS,
    *rest_git.OPERATIONS,
)

PREFIX = "/api/v3"

logger = logging.getLogger(__name__)


class RestRouter:
    """Everything under `/api/v3`."""

    def __init__(self, state: State, operations: Sequence[Operation] = OPERATIONS) -> None:
        self._state = state
        self._operations = operations

    async def handle(self, request: Request) -> Response:
        """Handle one request; errors become responses."""
        try:
            token = self.find_token(request)
            answer = await self.dispatch(request, read_path(request), token)
        except Refusal as refusal:
            answer = RestResponse(refusal.status, refusal.body(), refusal.headers)
        return Response(answer.content(), answer.status, answer.full_headers())

    async def dispatch(self, request: Request, path: str, token: Token | None) -> RestResponse:
        """Find the operation and run it.

        Raises:
            Refusal: there is none (501), or it refuses.
        """
        found = match(self._operations, request.method, path)
        if found is None:
            logger.error("The demo's GitHub has no operation %s %s", request.method, path)
            raise Refusal(501, "Not Implemented")
        entry, parts = found
        query = dict(parse_qsl(request.url.query, keep_blank_values=True))
        headers, raw = dict(request.headers), await request.body()
        call = RestCall(self._state, request.method, path, parts, query, headers, raw, token)
        return await self.run(entry, call)

    async def run(self, entry: Operation, call: RestCall) -> RestResponse:
        """Run an operation for who may.

        Raises:
            Refusal: nobody asks, or one who may not (401, 403, 404), or it refuses.
        """
        if entry.needs == "app":
            authorization = call.headers.get("authorization", "")
            self._state.tokens.verify_app_jwt(_parse_credentials(authorization))
        elif entry.needs != "open":
            self.authorize(entry, call)
        return await entry.handler(call)

    def authorize(self, entry: Operation, call: RestCall) -> None:
        """Find the call's repository, if it is about one.

        Raises:
            Refusal: nobody asks, or one who may not (401, 403, 404).
        """
        if call.token is None:
            raise Refusal(401, "Requires authentication")
        if "owner" not in call.parts:
            return
        repo = self._state.find_repo(f"{call.parts['owner']}/{call.parts['repo']}")
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

    def find_token(self, request: Request) -> Token | None:
        """The token; None without credentials and for the App's JWT, which the operation checks.

        Raises:
            Refusal: there is no such token (401).
        """
        value = _parse_credentials(request.headers.get("authorization", ""))
        if not value or value.count(".") == 2:
            return None
        token = self._state.tokens.find(value)
        if token is None:
            raise Refusal(401, "Bad credentials")
        return token


def read_path(request: Request) -> str:
    """The path below `PREFIX`, still encoded: `%2F` is not a slash."""
    encoded: bytes = request.scope.get("raw_path") or request.scope["path"].encode()
    return encoded.split(b"?")[0].decode("ascii", "replace").removeprefix(PREFIX) or "/"


def _parse_credentials(header: str) -> str:
    scheme, _, value = header.partition(" ")
    return value.strip() if scheme.lower() in ("bearer", "token") else ""
