"""Commit statuses, from CI without check runs."""

from __future__ import annotations

import asyncio

from bot.localhub.errors import not_found
from bot.localhub.json import checks as shapes
from bot.localhub.rest.call import RestCall, RestResponse, operation, paginate
from bot.localhub.rest.repositories import REPO
from bot.localhub.state import CommitStatus


async def show_combined(call: RestCall) -> RestResponse:
    """The latest status of each context. Without any, the state is "pending", as on GitHub."""
    sha = await asyncio.to_thread(call.repo.git.resolve, call.parts["ref"])
    if sha is None:
        raise not_found()
    found = latest(call.repo.statuses, sha)
    url = call.hub.url
    page = paginate(call, [shapes.status(url, call.repo, one) for one in found])
    body = shapes.status_summary(url, call.repo, sha, page.body, len(found), _overall_state(found))
    return RestResponse(200, body, page.headers)


def latest(every: list[CommitStatus], sha: str) -> list[CommitStatus]:
    """The latest status of each context."""
    return list({one.context: one for one in every if one.sha == sha}.values())


def _overall_state(found: list[CommitStatus]) -> str:
    states = {one.state for one in found}
    if states & {"error", "failure"}:
        return "failure"
    return "success" if states == {"success"} else "pending"


OPERATIONS = (operation("GET", REPO + "/commits/{ref...}/status", show_combined, "statuses:read"),)
