"""Issues, labels and comments: what the demo does not need."""

from __future__ import annotations

from typing import Any

from capuchin_demo.hub import issue_actions
from capuchin_demo.hub.github_errors import invalid
from capuchin_demo.hub.rest_call import RestCall, RestResponse, operation, paginate
from capuchin_demo.hub.rest_issues import READ, WRITE, find_comment, label_names, require_ownership
from capuchin_demo.hub.rest_repositories import REPO
from capuchin_demo.hub.state import User
from tests.support.github import issue_actions as actions
from tests.support.github import issue_json, repository_json
from tests.support.github.hub_state import hub_of


async def create_issue(call: RestCall) -> RestResponse:
    body = call.json()
    issue = issue_actions.open_issue(
        call.state,
        call.repo,
        call.text("title", "Issue"),
        body.get("body"),
        call.bearer.actor,
        label_names(body.get("labels", [])),
        _find_accounts(call, body.get("assignees", [])),
    )
    return RestResponse(201, issue_json.issue(issue))


async def change_issue(call: RestCall) -> RestResponse:
    hub, issue, by, body = hub_of(call), call.issue(), call.bearer.actor, call.json()
    state = body.get("state")
    if state not in (None, "open", "closed"):
        raise invalid("Issue", "state")
    issue_actions.edit_issue(hub, issue, by, body.get("title"), body.get("body"))
    if "labels" in body:
        actions.set_labels(hub, issue, label_names(body["labels"] or []), by)
    if "assignees" in body:
        wanted = _find_accounts(call, body["assignees"] or [])
        for user in [user for user in issue.assignees if user not in wanted]:
            actions.unassign(hub, issue, user, by)
        for user in wanted:
            issue_actions.assign(hub, issue, user, by)
    if state is not None:
        reason = body.get("state_reason") or "completed"
        issue_actions.set_issue_state(hub, issue, by, state, reason)
    return RestResponse(200, issue_json.issue(issue))


def _find_accounts(call: RestCall, logins: list[Any]) -> list[User]:
    """The accounts to assign. Those that cannot be assigned are ignored, as on GitHub."""
    found = (call.state.find_user(str(login)) for login in logins)
    return [user for user in found if user is not None]


async def show_comment(call: RestCall) -> RestResponse:
    return RestResponse(200, issue_json.comment(find_comment(call)))


async def delete_comment(call: RestCall) -> RestResponse:
    comment = find_comment(call)
    require_ownership(call, comment)
    actions.delete_comment(hub_of(call), comment, call.bearer.actor)
    return RestResponse(204)


async def list_issue_labels(call: RestCall) -> RestResponse:
    return paginate(call, issue_json.labels(call.issue()))


async def list_labels(call: RestCall) -> RestResponse:
    every = call.repo.labels.values()
    return paginate(call, [repository_json.label(call.repo, one) for one in every])


OPERATIONS = (
    operation("POST", REPO + "/issues", create_issue, "issues:write"),
    operation("GET", REPO + "/issues/comments/{comment}", show_comment, READ),
    operation("DELETE", REPO + "/issues/comments/{comment}", delete_comment, WRITE),
    operation("PATCH", REPO + "/issues/{number}", change_issue, WRITE),
    operation("GET", REPO + "/issues/{number}/labels", list_issue_labels, READ),
    operation("GET", REPO + "/labels", list_labels, READ),
)
