"""All routers as one application, with the GraphQL operations that REST lacks."""

import json
import re
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any, Literal, cast

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from bot.server.connections import serve_app
from capuchin_demo.hub.github_errors import QueryFailed
from capuchin_demo.hub.hub_pages import PageRouter
from capuchin_demo.hub.hub_state import State
from capuchin_demo.hub.issue_actions import react
from capuchin_demo.hub.pull_actions import convert_to_draft, mark_ready
from capuchin_demo.hub.rest_router import PREFIX, RestRouter
from capuchin_demo.hub.smart_http import SERVICES, GitRouter
from capuchin_demo.hub.state import Comment, Issue, Pull, Review, node_id, stamp
from capuchin_demo.hub.tokens import Token

PATH = "/api/graphql"
METHODS = ["GET", "POST", "PATCH", "PUT", "DELETE"]

_REACTIONS = {"EYES": "eyes", "THUMBS_UP": "+1", "CONFUSED": "confused", "ROCKET": "rocket"}
_DRAFT_MUTATIONS = {
    "markPullRequestReadyForReview": mark_ready,
    "convertPullRequestToDraft": convert_to_draft,
}


class GraphQLRouter:
    """Responds with status 200 even for errors, as GitHub does (docs.github.com/graphql)."""

    def __init__(self, state: State) -> None:
        self._state = state

    async def handle(self, request: Request) -> Response:
        token = self.find_token(request)
        if token is None:
            return JSONResponse({"message": "Bad credentials"}, 401)
        try:
            return JSONResponse(self.execute(await request.body(), token))
        except QueryFailed as failed:
            return JSONResponse(failed.body)

    def find_token(self, request: Request) -> Token | None:
        value = request.headers.get("authorization", "").partition(" ")[2]
        return self._state.tokens.find(value.strip())

    def execute(self, raw: bytes, token: Token) -> dict[str, Any]:
        """The result of a query.

        Raises:
            QueryFailed: it has none.
        """
        asked = cast("dict[str, Any]", json.loads(raw))
        variables = cast("dict[str, Any]", asked.get("variables") or {})
        return {
            "data": self.find_data(str(asked.get("query", "")), str(variables.get("id")), token)
        }

    def find_data(self, query: str, global_id: str, token: Token) -> dict[str, Any]:
        """What a query asks of the node.

        Raises:
            QueryFailed: there is no such node or query, or the token may not.
        """
        for name, change in _DRAFT_MUTATIONS.items():
            if re.search(rf"\b{name}\s*\(\s*input\s*:", query):
                pull = self.find_issue("PR", global_id, token, "pull_requests:write")
                assert isinstance(pull, Pull)
                change(self._state, pull, token.actor)
                return {name: {"pullRequest": {"isDraft": pull.draft}}}
        if asked := re.search(r"\b(add|remove)Reaction\s*\(\s*input\s*:.*content: (\w+)", query):
            how, content = asked.groups()
            given = self._find_review(global_id, token).reactions
            made, _ = react(self._state, given, _REACTIONS[content], token.actor)
            if how == "remove":
                given.remove(made)
            return {f"{how}Reaction": {"reaction": {"content": content}}}
        if "on Comment { editor" in query:
            editor = self._find_comment(global_id, token).editor
            return {"node": {"editor": editor and {"login": editor.login}}}
        if re.search(r"\blastEditedAt\b", query):
            return _edit_history(self.find_issue("I", global_id, token, "issues:read"))
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

    def _find_comment(self, global_id: str, token: Token) -> Comment:
        for repo in filter(token.can_see, self._state.repos.values()):
            for comment in (one for issue in repo.issues.values() for one in issue.comments):
                if node_id("IC", comment.id) == global_id:
                    return comment
        raise QueryFailed(
            "NOT_FOUND", f"Could not resolve to a node with the global id of '{global_id}'"
        )

    def find_issue(
        self, kind: Literal["I", "PR"], global_id: str, token: Token, needs: str
    ) -> Issue:
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
    return {"node": shape}


def create_app(state: State) -> Starlette:
    """Build the application from its routers. Any other path is 404."""
    return Starlette(
        routes=[
            *list_api_routes(RestRouter(state), GraphQLRouter(state)),
            *list_site_routes(GitRouter(state), PageRouter(state)),
        ]
    )


def list_api_routes(rest: RestRouter, graphql: GraphQLRouter) -> list[Route]:
    return [
        Route(PATH, graphql.handle, methods=["POST"]),
        Route(PREFIX + "/{rest:path}", rest.handle, methods=METHODS),
        Route(PREFIX, rest.handle, methods=METHODS),
    ]


def list_site_routes(git: GitRouter, pages: PageRouter) -> list[Route]:
    """Those under the repositories, and every other page."""

    async def show_page_or_git(request: Request) -> Response:
        """Git's requests may go to addresses without `.git`, too."""
        if request.path_params["service"] in SERVICES:
            return await git.handle(request)
        return await pages.handle(request)

    return [
        Route("/{owner}/{repo}.git/{service:path}", git.handle, methods=["GET", "POST"]),
        Route("/{owner}/{repo}/{service:path}", show_page_or_git, methods=["GET", "POST"]),
        Route("/{path:path}", pages.handle, methods=["GET"]),
    ]


@asynccontextmanager
async def serve_hub(
    state: State, app: Starlette, host: str, port: int
) -> AsyncGenerator[str, None]:
    """Serve the hub (port 0: any free one) until the block ends; yields its address."""
    async with serve_app(app, host, port) as address:
        state.site.url = address
        try:
            yield address
        finally:
            await state.webhooks.close()
