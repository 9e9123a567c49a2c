"""The way to the hub without sockets and an HTTP client: a sequence asks a hundred times.

What a client makes of GitHub's answers on the wire is for `tests/contracts/github_client`.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Any
from urllib.parse import urlencode, urlsplit

import httpx
from githubkit import Response
from githubkit.exception import RequestFailed
from starlette.requests import Request

from bot.git.mirrors import Checkout, Mirrors, Remote
from bot.github.app import Client, GitHubApp
from bot.github.http import GitHubAuth
from bot.settings import Settings
from capuchin_demo.hub.rest_router import PREFIX
from pipeline.data.types import CommitSha
from tests.support.github.hub import LocalHub
from tests.support.github.rest_router import RestRouter
from tests.support.github.serve_hub import GraphQLRouter


class Direct:
    """What of githubkit's client a `ResponseEncoder` uses."""

    def __init__(self, rest: RestRouter, graphql: GraphQLRouter, auth: GitHubAuth) -> None:
        self._rest = rest
        self._graphql = graphql
        self._auth = auth

    async def __aenter__(self) -> "Direct":
        return self

    async def __aexit__(self, *exc: object) -> None:
        return None

    async def arequest(
        self,
        method: str,
        url: str,
        *,
        json: Mapping[str, Any] | None = None,
        params: Mapping[str, Any] | None = None,
        headers: Mapping[str, str],
    ) -> Response[Any]:
        """Raises RequestFailed for an answer of 400 or more."""
        path = PREFIX + url if url.startswith("/") else urlsplit(url).path
        query = urlencode(params or {})
        asked = httpx.Request(method, f"http://hub{path}?{query}", headers=headers, json=json)
        flow = self._auth.async_auth_flow(asked)
        asked = await anext(flow)
        while True:
            answer = await self._answer(asked, path, query)
            try:
                asked = await flow.asend(answer)
            except StopAsyncIteration:
                break
        assert not answer.is_redirect or answer.status_code == 304, f"{method} {path}"
        wrapped = Response(answer, dict[str, Any])
        if answer.status_code >= 400:
            raise RequestFailed(wrapped)
        return wrapped

    async def _answer(self, asked: httpx.Request, path: str, query: str) -> httpx.Response:
        scope = {
            "type": "http",
            "method": asked.method,
            "path": path,
            "raw_path": path.encode(),
            "query_string": query.encode(),
            "headers": [(k.lower(), v) for k, v in asked.headers.raw],
            "server": ("hub", 80),
        }

        async def receive() -> dict[str, Any]:
            return {"type": "http.request", "body": asked.content, "more_body": False}

        door = self._rest if path.startswith(PREFIX) else self._graphql
        said = await door.handle(Request(scope, receive))
        return httpx.Response(
            said.status_code, headers=said.raw_headers, content=bytes(said.body), request=asked
        )


class NearApp(GitHubApp):
    """The App with a hub in the same process."""

    def __init__(self, settings: Settings, hub: LocalHub) -> None:
        super().__init__(settings, pause=0.0)
        self._routers = RestRouter(hub), GraphQLRouter(hub)

    def _open(self, kind: type[Client], auth: GitHubAuth, *root: str) -> Client:
        client = super()._open(kind, auth, *root)
        client._github = Direct(*self._routers, auth)  # pyright: ignore[reportAttributeAccessIssue, reportPrivateUsage]
        return client


class KeptMirrors(Mirrors):
    """Mirrors that know of a branch that has not moved, and so start no git for it.

    Whoever moves a default branch says so.
    """

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self._known: dict[tuple[str, str], Checkout] = {}

    def moved(self) -> None:
        """Some default branch has another head."""
        self._known = {key: one for key, one in self._known.items() if key[1] == one.base}

    async def checkout(
        self, remote: Remote, full_name: str, branch: str, *, base: CommitSha | None = None
    ) -> Checkout:
        known = self._known.get((full_name, base or branch))
        if known is None:
            known = await super().checkout(remote, full_name, branch, base=base)
            self._known[full_name, base or branch] = known
            self._known[full_name, known.base] = known
        return known
