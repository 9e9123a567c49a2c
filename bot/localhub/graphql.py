"""The GraphQL door. It knows the one mutation that REST does not have; all else is unexpected."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any, cast

from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from bot.localhub.actions.pulls import mark_ready
from bot.localhub.state import Exchange, Pull, node_id
from bot.localhub.tokens import Token

if TYPE_CHECKING:
    from bot.localhub.hub import LocalHub

PATH = "/api/graphql"
READY = re.compile(r"\bmarkPullRequestReadyForReview\s*\(\s*input\s*:")


class GraphQLDoor:
    """docs.github.com/graphql/reference/mutations: errors come with status 200, as on GitHub."""

    def __init__(self, hub: LocalHub) -> None:
        self._hub = hub

    async def answer(self, request: Request) -> Response:
        raw = await request.body()
        token = self._hub.tokens.find(
            request.headers.get("authorization", "").partition(" ")[2].strip()
        )
        fault = self._hub.faults.take("POST", PATH)
        refusal = fault.refusal() if fault is not None else None
        if token is None:
            status, body = 401, {"message": "Bad credentials"}
        elif refusal is not None and fault is not None and not fault.after_effect:
            status, body = refusal.status, refusal.body()
        else:
            status, body = 200, self._done(raw, token)
            if refusal is not None:
                status, body = refusal.status, refusal.body()
        answer = JSONResponse(body, status)
        self._hub.record(
            Exchange(
                "graphql", "POST", PATH, (), dict(request.headers), raw, status,
                dict(answer.headers), bytes(answer.body),
                token.actor.login if token else None,
                token.installation.id if token and token.installation else None,
            )
        )  # fmt: skip
        return answer

    def _done(self, raw: bytes, token: Token) -> dict[str, Any]:
        asked = cast("dict[str, Any]", json.loads(raw))
        if not READY.search(str(asked.get("query", ""))):
            self._hub.unexpected.append(f"POST {PATH}: {str(asked.get('query'))[:80]}")
            return _error("NOT_IMPLEMENTED", "This hub has no such query")
        wanted = str(cast("dict[str, Any]", asked.get("variables") or {}).get("id"))
        pull = self._pull(wanted)
        if pull is None or not token.sees(pull.repo):
            return _error(
                "NOT_FOUND", f"Could not resolve to a node with the global id of '{wanted}'"
            )
        if not token.may(pull.repo, "pull_requests:write"):
            return _error("FORBIDDEN", "Resource not accessible by integration")
        mark_ready(self._hub, pull, token.actor)
        shape = {"pullRequest": {"isDraft": pull.draft}}
        return {"data": {"markPullRequestReadyForReview": shape}}

    def _pull(self, wanted: str) -> Pull | None:
        every = (pull for repo in self._hub.repos.values() for pull in repo.pulls)
        return next((pull for pull in every if node_id("PR", pull.id) == wanted), None)


def _error(kind: str, message: str) -> dict[str, Any]:
    return {"data": None, "errors": [{"type": kind, "message": message}]}
