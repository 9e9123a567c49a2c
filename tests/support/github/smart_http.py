"""Git over HTTP with faults, rules, redirects, public repositories, and a record of all calls."""

import asyncio

from starlette.requests import Request
from starlette.responses import Response

from capuchin_demo.hub import smart_http
from capuchin_demo.hub.github_errors import Refusal
from capuchin_demo.hub.smart_http import GitRequest
from capuchin_demo.hub.tokens import Token
from tests.support.github.access import check_installation
from tests.support.github.hub_state import GitHubState
from tests.support.github.rules import RESULT, find_violations, parse_push


class GitRouter(smart_http.GitRouter):
    def __init__(self, hub: GitHubState) -> None:
        super().__init__(hub)
        self._hub = hub

    async def handle(self, request: Request) -> Response:
        token = self.find_token(request)
        response = await super().handle(request)
        self._hub.record("git", request, token, response.status_code, path=request.url.path)
        return response

    async def serve(self, request: Request, token: Token | None) -> Response:
        name = f"{request.path_params['owner']}/{request.path_params['repo']}"
        if moved := self._hub.find_moved(name):
            query = f"?{request.url.query}" if request.url.query else ""
            place = f"{moved.page_url}.git/{request.path_params['service']}{query}"
            return Response(None, 301, {"location": place})
        asked = self.authorize(request, token)
        if token is not None:
            writes = asked.writes and asked.service == "git-receive-pack"
            check_installation(self._hub, token, writes=writes)
        async with self._hub.faults.apply(request.method, request.url.path):
            return await super().serve(request, token)

    def authorize(self, request: Request, token: Token | None) -> GitRequest:
        if token is None and not self._hub.private_mode:
            asked = self.read_request(request, token)
            if asked is None or asked.repo.private or asked.writes:
                raise Refusal(401, "Authentication required")
            return asked
        asked = super().authorize(request, token)
        if asked.writes and asked.repo.archived:
            raise Refusal(403, "This repository was archived so it is read-only.")
        return asked

    async def receive_push(self, request: Request, asked: GitRequest, token: Token) -> Response:
        before = await asyncio.to_thread(asked.repo.git.list_refs, "")
        push = parse_push(await request.body())
        broken = await asyncio.to_thread(
            find_violations, self._hub, asked.repo, token, push, before
        )
        if broken:
            return Response(push.decline(broken), 200, None, RESULT)
        return await super().receive_push(request, asked, token)
