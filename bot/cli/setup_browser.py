"""The local web server that sends the browser to GitHub and receives it back."""

import asyncio
import hmac
import json
import re
import secrets
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from html import escape
from typing import Any
from urllib.parse import quote

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import HTMLResponse, Response
from starlette.routing import Route

from bot.server.connections import serve_app


class RegistrationFlow:
    """Sends the browser to GitHub and back. Rejects requests without the secret `state`."""

    def __init__(
        self, github_url: str, organization: str, build_manifest: Callable[[str], dict[str, Any]]
    ) -> None:
        """`build_manifest` is called with the redirect address."""
        self.state = secrets.token_urlsafe(32)
        self.url = ""
        self._build_manifest = build_manifest
        self._code: asyncio.Future[str] = asyncio.get_running_loop().create_future()
        root = github_url.rstrip("/")
        account = f"/organizations/{quote(organization, safe='')}" if organization else ""
        self._target = f"{root}{account}/settings/apps/new?state={self.state}"

    async def wait_for_code(self) -> str:
        return await self._code

    @asynccontextmanager
    async def open(self, port: int) -> AsyncGenerator[None, None]:
        """Serve on the loopback at `port` (0: any free one) until the block ends.

        Raises:
            OSError: the port is taken.
        """
        async with serve_app(self.build_app(), "127.0.0.1", port) as url:
            self.url = f"{url}/"
            yield

    def build_app(self) -> Starlette:
        app = Starlette(
            routes=[Route("/", self._show_start_page), Route("/created", self._receive_code)]
        )
        app.router.redirect_slashes = False  # to the host that the request names
        return app

    async def _show_start_page(self, request: Request) -> Response:
        del request
        manifest = escape(json.dumps(self._build_manifest(f"{self.url}created")))
        return _render_page(
            f'<form action="{escape(self._target)}" method="post">'
            f'<input type="hidden" name="manifest" value="{manifest}">'
            "<p>GitHub will ask for the App's name, then create the App.</p>"
            '<p><button type="submit">Continue to GitHub</button></p></form>'
        )

    async def _receive_code(self, request: Request) -> Response:
        state, code = (request.query_params.get(name, "") for name in ("state", "code"))
        if not hmac.compare_digest(state.encode("utf-8", "replace"), self.state.encode()):
            return _render_page(
                "<p>This response does not belong to this setup. Please start again.</p>", 400
            )
        if not re.fullmatch(r"[A-Za-z0-9_-]{1,200}", code):
            return _render_page("<p>GitHub sent no code. Please start again.</p>", 400)
        if not self._code.done():
            self._code.set_result(code)
        return _render_page("<p>The App has been created. Continue in the terminal.</p>")


def _render_page(body: str, status: int = 200) -> Response:
    head = (
        '<!doctype html><html lang="en"><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        "<title>Capuchin</title>"
        '<body style="font: 1rem/1.5 sans-serif; margin: 2rem auto; max-width: 36rem">'
    )
    headers = {
        "content-security-policy": "default-src 'none'; style-src 'unsafe-inline'; "
        "base-uri 'none'; frame-ancestors 'none'",
        "cache-control": "no-store",
        # With `no-referrer`, the form that goes to GitHub would say `Origin: null`.
        "referrer-policy": "origin",
    }
    return HTMLResponse(f"{head}<h1>Capuchin</h1>{body}", status, headers)
