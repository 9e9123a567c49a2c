"""The demo's application with what only tests ask for."""

from typing import Any

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, PlainTextResponse, Response
from starlette.routing import Route

from capuchin_demo.hub import serve_hub
from capuchin_demo.hub.github_errors import QueryFailed, Refusal
from capuchin_demo.hub.hub_pages import PageRouter
from capuchin_demo.hub.serve_hub import PATH, list_api_routes, list_site_routes
from capuchin_demo.hub.tokens import Token
from tests.support.github.access import check_installation
from tests.support.github.apps import RegistrationRouter
from tests.support.github.attachments import render_signed
from tests.support.github.hub_state import GitHubState
from tests.support.github.rest_router import RestRouter
from tests.support.github.smart_http import GitRouter


class GraphQLRouter(serve_hub.GraphQLRouter):
    """GraphQL with faults, and a record of all queries."""

    def __init__(self, hub: GitHubState) -> None:
        super().__init__(hub)
        self._hub = hub

    async def handle(self, request: Request) -> Response:
        raw, token = await request.body(), self.find_token(request)
        answer = await super().handle(request) if token is None else await self._answer(raw, token)
        self._hub.record(
            "graphql", request, token, answer.status_code,
            path=PATH, body=raw, response_headers=answer.headers, response=bytes(answer.body),
        )  # fmt: skip
        return answer

    async def _answer(self, raw: bytes, token: Token) -> Response:
        try:
            async with self._hub.faults.apply("POST", PATH):
                check_installation(self._hub, token, writes=b"mutation" in raw)
                self._hub.faults.fail_query()
                return JSONResponse(self.execute(raw, token))
        except QueryFailed as failed:
            return JSONResponse(failed.body, headers=failed.headers)
        except Refusal as refusal:
            return JSONResponse(refusal.body(), refusal.status, refusal.headers)

    def find_data(self, query: str, global_id: str, token: Token) -> dict[str, Any]:
        if "bodyHTML" in query:
            issue = self.find_issue("I", global_id, token, "issues:read")
            return {"node": {"bodyHTML": render_signed(self._hub, issue.body or "")}}
        try:
            return super().find_data(query, global_id, token)
        except QueryFailed as failed:
            if failed.kind == "NOT_IMPLEMENTED":
                self._hub.unexpected.append(f"POST {PATH}: {query[:80]}")
            raise


def create_app(hub: GitHubState) -> Starlette:
    """Build the application from its routers. Any other path is 404."""
    registration = RegistrationRouter(hub)

    async def show_attachment(request: Request) -> Response:
        """Without a session, as a server asks: pictures need a signature in private mode."""
        if "authorization" in request.headers:  # it belongs to another service
            return PlainTextResponse("InvalidAuthenticationInfo", 400)
        content = hub.attachments.get(request.url.path)
        signed = request.query_params.get("jwt") == hub.attachment_jwt
        if content is None or (hub.private_mode and "/assets/" in request.url.path and not signed):
            return PlainTextResponse("Not Found", 404)
        return Response(content, media_type="application/octet-stream")

    return Starlette(
        routes=[
            *list_api_routes(RestRouter(hub), GraphQLRouter(hub)),
            Route("/user-attachments/{path:path}", show_attachment, methods=["GET"]),
            Route("/settings/apps/new", registration.handle, methods=["POST"]),
            Route("/organizations/{org}/settings/apps/new", registration.handle, methods=["POST"]),
            *list_site_routes(GitRouter(hub), PageRouter(hub)),
        ]
    )
