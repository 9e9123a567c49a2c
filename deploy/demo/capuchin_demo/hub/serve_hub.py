"""All routers as one application, with the GraphQL operations that REST lacks."""

from __future__ import annotations

import json
import re
from typing import Any, Literal, cast

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, PlainTextResponse, Response
from starlette.routing import Route

from capuchin_demo.hub.apps import RegistrationRouter
from capuchin_demo.hub.faults import QueryFailed, Refusal
from capuchin_demo.hub.hub_pages import PageRouter, render_signed
from capuchin_demo.hub.hub_state import State
from capuchin_demo.hub.issue_actions import react
from capuchin_demo.hub.pull_actions import convert_to_draft, mark_ready
from capuchin_demo.hub.rest_router import PREFIX, RestRouter, check_installation
from capuchin_demo.hub.smart_http import SERVICES, GitRouter
from capuchin_demo.hub.state import Issue, Pull, Review, node_id, stamp
from capuchin_demo.hub.tokens import Token

PATH = "/api/graphql"


_DRAFT_MUTATIONS = {
    "markPullRequestReadyForReview": mark_ready,
    "convertPullRequestToDraft": convert_to_draft,
}


class GraphQLRouter:
    """Responds with status 200 even for errors, as GitHub does (docs.github.com/graphql)."""

    def __init__(self, state: State) -> None:
        self._state = state

    async def handle(self, request: Request) -> Response:
        raw = await request.body()
        token = self._state.tokens.find(
            request.headers.get("authorization", "").partition(" ")[2].strip()
        )
        status, body = 401, {"message": "Bad credentials"}
        headers: dict[str, str] = {}
        if token is not None:
            try:
                async with self._state.faults.apply("POST", PATH):
                    check_installation(token, writes=b"mutation" in raw)
                    status = 200
                    self._state.faults.fail_query()
                    body = self._execute(raw, token)
            except QueryFailed as failed:
                body, headers = failed.body, failed.headers
            except Refusal as refusal:
                status, body, headers = refusal.status, refusal.body(), refusal.headers
        answer = JSONResponse(body, status, headers)
        self._state.record(
            "graphql", request, token, status,
            path=PATH, body=raw, response_headers=answer.headers, response=bytes(answer.body),
        )  # fmt: skip
        return answer

    def _execute(self, raw: bytes, token: Token) -> dict[str, Any]:
        asked = cast("dict[str, Any]", json.loads(raw))
        query = str(asked.get("query", ""))
        global_id = str(cast("dict[str, Any]", asked.get("variables") or {}).get("id"))
        for name, change in _DRAFT_MUTATIONS.items():
            if re.search(rf"\b{name}\s*\(\s*input\s*:", query):
                pull = self._find("PR", global_id, token, "pull_requests:write")
                assert isinstance(pull, Pull)
                change(self._state, pull, token.actor)
                return {"data": {name: {"pullRequest": {"isDraft": pull.draft}}}}
        if re.search(r"\baddReaction\s*\(\s*input\s*:.*\bEYES\b", query):
            react(self._state, self._find_review(global_id, token).reactions, "eyes", token.actor)
            return {"data": {"addReaction": {"reaction": {"content": "EYES"}}}}
        if re.search(r"\blastEditedAt\b", query):
            return _edit_history(self._find("I", global_id, token, "issues:read"))
        if re.search(r"\bbodyHTML\b", query):
            issue = self._find("I", global_id, token, "issues:read")
            return {"data": {"node": {"bodyHTML": render_signed(self._state, issue.body or "")}}}
        self._state.unexpected.append(f"POST {PATH}: {query[:80]}")
        raise QueryFailed("NOT_IMPLEMENTED", "This hub has no such query")

    def _find_review(self, global_id: str, token: Token) -> Review:
        for repo in filter(token.can_see, self._state.repos.values()):
            for review in (one for pull in repo.pulls for one in pull.reviews):
                if node_id("PRR", review.id) == global_id:
                    if not token.is_allowed(repo, "pull_requests:write"):
                        raise QueryFailed("FORBIDDEN", "Resource not accessible by integration")
                    return review
        raise QueryFailed(
            "NOT_FOUND", f"Could not resolve to a node with the global id of '{global_id}'"
        )

    def _find(self, kind: Literal["I", "PR"], global_id: str, token: Token, needs: str) -> Issue:
        for repo in filter(token.can_see, self._state.repos.values()):
            for issue in repo.issues.values() if kind == "I" else repo.pulls:
                if node_id(kind, issue.id) == global_id:
                    if not token.is_allowed(repo, needs):
                        raise QueryFailed("FORBIDDEN", "Resource not accessible by integration")
                    return issue
        raise QueryFailed(
            "NOT_FOUND", f"Could not resolve to a node with the global id of '{global_id}'"
        )


def _edit_history(issue: Issue) -> dict[str, Any]:
    """https://docs.github.com/graphql/reference/objects#issue"""
    edits = [one for one in issue.timeline if one.text.startswith("edited the")]
    body = [stamp(one.at) for one in edits if "body" in one.text]
    titles = [{"createdAt": stamp(one.at)} for one in edits if "title" in one.text]
    shape = {"lastEditedAt": body[-1] if body else None, "timelineItems": {"nodes": titles[-1:]}}
    return {"data": {"node": shape}}


def create_app(state: State) -> Starlette:
    """Build the application from its routers. Any other path is 404."""
    pages, git, rest = PageRouter(state), GitRouter(state), RestRouter(state)
    registration = RegistrationRouter(state)
    methods = ["GET", "POST", "PATCH", "PUT", "DELETE"]

    async def show_attachment(request: Request) -> Response:
        """Without a session, as a server asks: pictures need a signature in private mode."""
        if "authorization" in request.headers:  # it belongs to another service
            return PlainTextResponse("InvalidAuthenticationInfo", 400)
        content = state.attachments.get(request.url.path)
        signed = request.query_params.get("jwt") == state.attachment_jwt
        if content is None or (
            state.private_mode and "/assets/" in request.url.path and not signed
        ):
            return PlainTextResponse("Not Found", 404)
        return Response(content, media_type="application/octet-stream")

    async def show_page_or_git(request: Request) -> Response:
        """Git's requests may go to addresses without `.git`, too."""
        if request.path_params["service"] in SERVICES:
            return await git.handle(request)
        return await pages.handle(request)

    return Starlette(
        routes=[
            Route(PATH, GraphQLRouter(state).handle, methods=["POST"]),
            Route(PREFIX + "/{rest:path}", rest.handle, methods=methods),
            Route(PREFIX, rest.handle, methods=methods),
            Route("/user-attachments/{path:path}", show_attachment, methods=["GET"]),
            Route("/settings/apps/new", registration.handle, methods=["POST"]),
            Route("/organizations/{org}/settings/apps/new", registration.handle, methods=["POST"]),
            Route("/{owner}/{repo}.git/{service:path}", git.handle, methods=["GET", "POST"]),
            Route("/{owner}/{repo}/{service:path}", show_page_or_git, methods=["GET", "POST"]),
            Route("/{path:path}", pages.handle, methods=["GET"]),
        ]
    )
