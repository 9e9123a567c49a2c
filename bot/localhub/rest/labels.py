"""Labels of an issue and of a repository."""

from __future__ import annotations

import json
import re
from typing import Any, cast

from bot.localhub.actions import issues as actions
from bot.localhub.errors import Refusal, invalid, not_found
from bot.localhub.json import issues as shapes
from bot.localhub.json import repositories
from bot.localhub.rest.call import RestCall, RestResponse, operation, paginate
from bot.localhub.rest.issues import READ, WRITE, label_names
from bot.localhub.rest.repositories import REPO
from bot.localhub.state import Label


async def list_for_issue(call: RestCall) -> RestResponse:
    return paginate(call, shapes.labels(call.hub.url, call.issue()))


async def add(call: RestCall) -> RestResponse:
    """Add labels. The body is `{"labels": [...]}` or a bare list."""
    issue = call.issue()
    try:
        body: Any = json.loads(call.raw or b"{}")
    except ValueError:
        raise Refusal(400, "Problems parsing JSON") from None
    asked = cast("dict[str, Any]", body).get("labels") if isinstance(body, dict) else body
    actions.add_labels(call.hub, issue, label_names(asked), call.bearer.actor)
    return RestResponse(200, shapes.labels(call.hub.url, issue))


async def remove(call: RestCall) -> RestResponse:
    issue = call.issue()
    actions.remove_label(call.hub, issue, call.parts["name"], call.bearer.actor)
    return RestResponse(200, shapes.labels(call.hub.url, issue))


async def list_events(call: RestCall) -> RestResponse:
    """The label events of an issue's history, oldest first."""
    issue = call.issue()
    named = [entry for entry in issue.timeline if entry.event]
    return paginate(call, [shapes.label_event(call.hub.url, issue, one) for one in named])


async def list_for_repo(call: RestCall) -> RestResponse:
    every = call.repo.labels.values()
    return paginate(call, [repositories.label(call.hub.url, call.repo, one) for one in every])


async def create(call: RestCall) -> RestResponse:
    body, name = call.json(), call.text("name", "Label")
    if len(name) > actions.LONGEST_LABEL:
        raise invalid("Label", "name")
    if name.lower() in call.repo.labels:
        raise invalid("Label", "name", "already_exists")
    color = str(body.get("color", "ededed"))
    if not re.fullmatch(r"[0-9a-fA-F]{6}", color):
        raise invalid("Label", "color")
    label = Label(call.hub.next_id(), name, color, body.get("description"))
    call.repo.labels[name.lower()] = label
    return RestResponse(201, repositories.label(call.hub.url, call.repo, label))


async def show(call: RestCall) -> RestResponse:
    label = call.repo.labels.get(call.parts["name"].lower())
    if label is None:
        raise not_found()
    return RestResponse(200, repositories.label(call.hub.url, call.repo, label))


OPERATIONS = (
    operation("GET", REPO + "/issues/{number}/labels", list_for_issue, READ),
    operation("GET", REPO + "/issues/{number}/events", list_events, READ),
    operation("POST", REPO + "/issues/{number}/labels", add, WRITE),
    operation("DELETE", REPO + "/issues/{number}/labels/{name}", remove, WRITE),
    operation("GET", REPO + "/labels", list_for_repo, READ),
    operation("POST", REPO + "/labels", create, WRITE),
    operation("GET", REPO + "/labels/{name}", show, READ),
)
