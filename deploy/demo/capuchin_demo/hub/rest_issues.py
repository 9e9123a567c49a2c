"""Issues: list, open, show, edit."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, cast

from bot.localhub.actions import issues as actions
from bot.localhub.errors import invalid
from bot.localhub.json import issues as shapes
from bot.localhub.rest.call import RestCall, RestResponse, operation, paginate
from bot.localhub.rest.repositories import REPO
from bot.localhub.state import Issue, User, stamp

READ = "issues:read|pull_requests:read"
WRITE = "issues:write|pull_requests:write"


async def list_issues(call: RestCall) -> RestResponse:
    """List issues and, as on GitHub, pull requests, by default newest first."""
    found = [issue for issue in call.repo.issues.values() if _matches_query(call, issue)]
    orders: dict[str, Callable[[Issue], Any]] = {
        "updated": lambda issue: (issue.updated_at, issue.number),
        "comments": lambda issue: (len(issue.comments), issue.number),
    }
    order = orders.get(call.query.get("sort", ""), lambda issue: issue.number)
    found.sort(key=order, reverse=call.query.get("direction", "desc") != "asc")
    return paginate(call, [shapes.issue(call.hub.url, issue) for issue in found])


def _matches_query(call: RestCall, issue: Issue) -> bool:
    asked = call.query
    state, creator, since = asked.get("state", "open"), asked.get("creator"), asked.get("since")
    labels = {name.lower() for name in asked.get("labels", "").split(",") if name}
    return (
        state in ("all", issue.state)
        and labels <= {name.lower() for name in issue.labels}
        and (creator is None or creator.lower() == issue.author.login.lower())
        and (since is None or since <= stamp(issue.updated_at))
    )


async def create(call: RestCall) -> RestResponse:
    body = call.json()
    issue = actions.open_issue(
        call.hub,
        call.repo,
        call.text("title", "Issue"),
        body.get("body"),
        call.bearer.actor,
        label_names(body.get("labels", [])),
        _find_accounts(call, body.get("assignees", [])),
    )
    return RestResponse(201, shapes.issue(call.hub.url, issue))


async def show(call: RestCall) -> RestResponse:
    return RestResponse(200, shapes.issue(call.hub.url, call.issue()))


async def change(call: RestCall) -> RestResponse:
    hub, issue, by, body = call.hub, call.issue(), call.bearer.actor, call.json()
    state = body.get("state")
    if state not in (None, "open", "closed"):
        raise invalid("Issue", "state")
    actions.edit(hub, issue, by, body.get("title"), body.get("body"))
    if "labels" in body:
        actions.set_labels(hub, issue, label_names(body["labels"] or []), by)
    if "assignees" in body:
        wanted = _find_accounts(call, body["assignees"] or [])
        for user in [user for user in issue.assignees if user not in wanted]:
            actions.unassign(hub, issue, user, by)
        for user in wanted:
            actions.assign(hub, issue, user, by)
    if state is not None:
        actions.set_state(hub, issue, by, state, body.get("state_reason") or "completed")
    return RestResponse(200, shapes.issue(hub.url, issue))


def label_names(labels: Any) -> list[str]:
    """The names of labels, which are strings or objects with a name.

    Raises:
        Refusal: an entry is neither (422).
    """
    names: list[str] = []
    for one in cast("list[Any]", labels if isinstance(labels, list) else [None]):
        name: Any = cast("dict[str, Any]", one).get("name") if isinstance(one, dict) else one
        if not isinstance(name, str):
            raise invalid("Label", "name")
        names.append(name)
    return names


def _find_accounts(call: RestCall, logins: list[Any]) -> list[User]:
    """The accounts to assign. Those that cannot be assigned are ignored, as on GitHub."""
    found = (call.hub.find_user(str(login)) for login in logins)
    return [user for user in found if user is not None]


OPERATIONS = (
    operation("GET", REPO + "/issues", list_issues, READ),
    operation("POST", REPO + "/issues", create, "issues:write"),
    operation("GET", REPO + "/issues/{number}", show, READ),
    operation("PATCH", REPO + "/issues/{number}", change, WRITE),
)
