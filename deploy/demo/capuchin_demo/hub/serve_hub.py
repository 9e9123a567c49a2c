"""All routers as one application, with the GraphQL operations that REST lacks."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any, cast

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from capuchin_demo.hub.apps import RegistrationRouter
from capuchin_demo.hub.hub_pages import PageRouter
from capuchin_demo.hub.pull_actions import mark_ready
from capuchin_demo.hub.rest_router import PREFIX, RestRouter
from capuchin_demo.hub.smart_http import GitRouter
from capuchin_demo.hub.state import Exchange, Issue, Pull, Repo, node_id, stamp
from capuchin_demo.hub.tokens import Token

if TYPE_CHECKING:
    from capuchin_demo.hub.hub import LocalHub


PATH = "/api/graphql"
READY = re.compile(r"\bmarkPullRequestReadyForReview\s*\(\s*input\s*:")
EDIT_HISTORY = re.compile(r"\blastEditedAt\b")


class GraphQLRouter:
    """Responds with status 200 even for errors, as GitHub does (docs.github.com/graphql)."""

    def __init__(self, hub: LocalHub) -> None:
        self._hub = hub

    async def handle(self, request: Request) -> Response:
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
            status, body = 200, self._execute(raw, token)
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

    def _execute(self, raw: bytes, token: Token) -> dict[str, Any]:
        asked = cast("dict[str, Any]", json.loads(raw))
        query = str(asked.get("query", ""))
        global_id = str(cast("dict[str, Any]", asked.get("variables") or {}).get("id"))
        if READY.search(query):
            pull = self._find_pull(global_id)
            refused = _access_error(token, global_id, pull and pull.repo, "pull_requests:write")
            return refused or self._mark_ready(cast(Pull, pull), token)
        if EDIT_HISTORY.search(query):
            issue = self._find_issue(global_id)
            refused = _access_error(token, global_id, issue and issue.repo, "issues:read")
            return refused or _edit_history(cast(Issue, issue))
        self._hub.unexpected.append(f"POST {PATH}: {query[:80]}")
        return _error_body("NOT_IMPLEMENTED", "This hub has no such query")

    def _mark_ready(self, pull: Pull, token: Token) -> dict[str, Any]:
        mark_ready(self._hub, pull, token.actor)
        shape = {"pullRequest": {"isDraft": pull.draft}}
        return {"data": {"markPullRequestReadyForReview": shape}}

    def _find_pull(self, global_id: str) -> Pull | None:
        every = (pull for repo in self._hub.repos.values() for pull in repo.pulls)
        return next((pull for pull in every if node_id("PR", pull.id) == global_id), None)

    def _find_issue(self, global_id: str) -> Issue | None:
        every = (issue for repo in self._hub.repos.values() for issue in repo.issues.values())
        return next((issue for issue in every if node_id("I", issue.id) == global_id), None)


def _edit_history(issue: Issue) -> dict[str, Any]:
    """https://docs.github.com/graphql/reference/objects#issue"""
    edits = [one for one in issue.timeline if one.text.startswith("edited the")]
    body = [stamp(one.at) for one in edits if "body" in one.text]
    titles = [{"createdAt": stamp(one.at)} for one in edits if "title" in one.text]
    shape = {"lastEditedAt": body[-1] if body else None, "timelineItems": {"nodes": titles[-1:]}}
    return {"data": {"node": shape}}


def _access_error(
    token: Token, global_id: str, repo: Repo | None, needs: str
) -> dict[str, Any] | None:
    if repo is None or not token.can_see(repo):
        return _error_body(
            "NOT_FOUND", f"Could not resolve to a node with the global id of '{global_id}'"
        )
    if not token.is_allowed(repo, needs):
        return _error_body("FORBIDDEN", "Resource not accessible by integration")
    return None


def _error_body(kind: str, message: str) -> dict[str, Any]:
    return {"data": None, "errors": [{"type": kind, "message": message}]}


METHODS = ["GET", "POST", "PATCH", "PUT", "DELETE"]


def create_app(hub: LocalHub) -> Starlette:
    """Build the application from its routers. Any other path is 404."""
    pages = PageRouter(hub)
    rest = RestRouter(hub)
    git = GitRouter(hub)
    registration = RegistrationRouter(hub)
    graphql = GraphQLRouter(hub)
    return Starlette(
        routes=[
            Route("/api/graphql", graphql.handle, methods=["POST"]),
            Route(PREFIX + "/{rest:path}", rest.handle, methods=METHODS),
            Route(PREFIX, rest.handle, methods=METHODS),
            Route("/settings/apps/new", registration.handle, methods=["POST"]),
            Route("/organizations/{org}/settings/apps/new", registration.handle, methods=["POST"]),
            Route("/{owner}/{repo}.git/{service:path}", git.handle, methods=["GET", "POST"]),
            Route("/{owner}/{repo}/{service:path}", git.with_fallback(pages.handle),
                  methods=["GET", "POST"]),
            Route("/{path:path}", pages.handle, methods=["GET"]),
        ]
    )  # fmt: skip
