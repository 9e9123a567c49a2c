"""Serves the hub on a socket: one ASGI application, run by uvicorn in the caller's event loop."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncGenerator, Generator
from contextlib import asynccontextmanager, contextmanager
from typing import TYPE_CHECKING

import uvicorn
from starlette.applications import Starlette
from starlette.routing import Route

from bot.localhub.git.http import GitRouter
from bot.localhub.graphql import GraphQLRouter
from bot.localhub.pages import PageRouter
from bot.localhub.registration import RegistrationRouter
from bot.localhub.rest.router import PREFIX, RestRouter

if TYPE_CHECKING:
    from bot.localhub.hub import LocalHub

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


@asynccontextmanager
async def serve_app(app: Starlette, host: str, port: int) -> AsyncGenerator[str, None]:
    """Serve until the block ends; yields `http://host:port`.

    Raises:
        OSError: the port is taken.
    """
    # Without an explicit TCP protocol, asyncio keeps Nagle's algorithm on, which costs 40 ms.
    listener = socket.socket(socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    listener.bind((host, port))
    config = uvicorn.Config(
        app,
        log_config=None,
        access_log=False,
        date_header=False,
        lifespan="on",
        ws="none",
        timeout_graceful_shutdown=1,
    )
    server = _HubServer(config)
    with listener:
        task = asyncio.get_running_loop().create_task(server.serve(sockets=[listener]))
        await asyncio.wait(
            [task, started := asyncio.ensure_future(server.up.wait())],
            return_when=asyncio.FIRST_COMPLETED,
        )
        started.cancel()
        try:
            yield f"http://{host}:{listener.getsockname()[1]}"
        finally:
            server.stop.set()
            await task


class _HubServer(uvicorn.Server):
    """Leaves signals to the program that it runs in, and signals when it listens."""

    def __init__(self, config: uvicorn.Config) -> None:
        super().__init__(config)
        self.up = asyncio.Event()
        self.stop = asyncio.Event()

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        self.up.set()

    async def main_loop(self) -> None:
        """Stop immediately on request; uvicorn's own loop checks only ten times a second."""
        await self.stop.wait()

    @contextmanager
    def capture_signals(self) -> Generator[None, None, None]:
        yield
