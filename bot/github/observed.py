"""Reports each request to GitHub to observers, and what GitHub says of the rate that is left."""

from __future__ import annotations

from collections.abc import Awaitable
from typing import Any

from githubkit import Response
from githubkit.exception import RequestFailed

from bot.telemetry.gauges import GITHUB_RATE
from sandbox.observation import Event, Kind, observe


async def observe_request(
    method: str, path: str, request: Awaitable[Response[Any]]
) -> Response[Any]:
    """Send `request`. Raises githubkit's errors."""
    with observe(Kind.GITHUB_CALL, method=method, path=path) as event:
        try:
            response = await request
        except RequestFailed as error:
            _note_answer(event, error.response)
            raise
        _note_answer(event, response)
        return response


def _note_answer(event: Event, response: Response[Any]) -> None:
    event.facts["status"] = response.status_code
    GITHUB_RATE.note(response.headers)
