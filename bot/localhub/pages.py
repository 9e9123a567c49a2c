"""The HTML door."""

from __future__ import annotations

from typing import TYPE_CHECKING

from starlette.requests import Request
from starlette.responses import Response

if TYPE_CHECKING:
    from bot.localhub.hub import LocalHub


class PageDoor:
    """Pages for a person's eyes."""

    def __init__(self, hub: LocalHub) -> None:
        self._hub = hub

    async def answer(self, request: Request) -> Response:
        """Answers one page."""
        return Response("Not Found", 404)
