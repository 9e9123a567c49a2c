"""Issues, comments, labels, timeline."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from typing import Any, cast

from capuchin_demo.hub import issue_actions, issue_json, repository_json
from capuchin_demo.hub.faults import Refusal, invalid, not_found
from capuchin_demo.hub.rest_call import RestCall, RestResponse, operation, paginate
from capuchin_demo.hub.rest_repositories import REPO
from capuchin_demo.hub.state import Comment, Issue, Label, User, stamp

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
    return paginate(call, [issue_json.issue(call.hub.url, issue) for issue in found])


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
    issue = issue_actions.open_issue(
        call.hub,
        call.repo,
        call.text("title", "Issue"),
        body.get("body"),
        call.bearer.actor,
        label_names(body.get("labels", [])),
        _find_accounts(call, body.get("assignees", [])),
    )
    return RestResponse(201, issue_json.issue(call.hub.url, issue))


async def show(call: RestCall) -> RestResponse:
    return RestResponse(200, issue_json.issue(call.hub.url, call.issue()))


async def change(call: RestCall) -> RestResponse:
    hub, issue, by, body = call.hub, call.issue(), call.bearer.actor, call.json()
    state = body.get("state")
    if state not in (None, "open", "closed"):
        raise invalid("Issue", "state")
    issue_actions.edit(hub, issue, by, body.get("title"), body.get("body"))
    if "labels" in body:
        issue_actions.set_labels(hub, issue, label_names(body["labels"] or []), by)
    if "assignees" in body:
        wanted = _find_accounts(call, body["assignees"] or [])
        for user in [user for user in issue.assignees if user not in wanted]:
            issue_actions.unassign(hub, issue, user, by)
        for user in wanted:
            issue_actions.assign(hub, issue, user, by)
    if state is not None:
        issue_actions.set_state(hub, issue, by, state, body.get("state_reason") or "completed")
    return RestResponse(200, issue_json.issue(hub.url, issue))


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


def find_comment(call: RestCall) -> Comment:
    """The comment in the path.

    Raises:
        Refusal: it does not exist (404).
    """
    comment = call.repo.find_comment(call.number("comment"))
    if comment is None:
        raise not_found()
    return comment


async def list_comments(call: RestCall) -> RestResponse:
    since = call.query.get("since", "")
    shown = [c for c in call.issue().comments if stamp(c.updated_at) >= since]
    return paginate(call, [issue_json.comment(call.hub.url, comment) for comment in shown])


async def list_all(call: RestCall) -> RestResponse:
    """The comments on all issues and pull requests, by default sorted by id, as on GitHub."""
    since = call.query.get("since", "")
    found = [c for one in call.repo.issues.values() for c in one.comments]
    shown = [c for c in found if stamp(c.updated_at) >= since]
    shown.sort(
        key=lambda c: (_sort_key(call, c), c.id), reverse=call.query.get("direction") == "desc"
    )
    return paginate(call, [issue_json.comment(call.hub.url, comment) for comment in shown])


def _sort_key(call: RestCall, comment: Comment) -> str:
    orders = {"created": comment.created_at, "updated": comment.updated_at}
    moment = orders.get(call.query.get("sort", ""))
    return stamp(moment) if moment else ""


async def comments_create(call: RestCall) -> RestResponse:
    issue = call.issue()
    comment = issue_actions.add(
        call.hub, issue, call.text("body", "IssueComment"), call.bearer.actor
    )
    shape = issue_json.comment(call.hub.url, comment)
    return RestResponse(201, shape, {"location": shape["url"]})


async def comments_show(call: RestCall) -> RestResponse:
    return RestResponse(200, issue_json.comment(call.hub.url, find_comment(call)))


async def comments_change(call: RestCall) -> RestResponse:
    comment = find_comment(call)
    _require_ownership(call, comment)
    issue_actions.comments_edit(
        call.hub, comment, call.text("body", "IssueComment"), call.bearer.actor
    )
    return RestResponse(200, issue_json.comment(call.hub.url, comment))


async def remove(call: RestCall) -> RestResponse:
    comment = find_comment(call)
    _require_ownership(call, comment)
    issue_actions.comments_delete(call.hub, comment, call.bearer.actor)
    return RestResponse(204)


def _require_ownership(call: RestCall, comment: Comment) -> None:
    """Only people with write access may change the comments of others."""
    who = call.bearer
    if comment.author is not who.actor and not who.is_allowed(call.repo, WRITE):
        raise Refusal(403, "Must have admin rights to Repository.")


COMMENTS_OPERATIONS = (
    operation("GET", REPO + "/issues/comments", list_all, READ),
    operation("GET", REPO + "/issues/comments/{comment}", comments_show, READ),
    operation("PATCH", REPO + "/issues/comments/{comment}", comments_change, WRITE),
    operation("DELETE", REPO + "/issues/comments/{comment}", remove, WRITE),
    operation("GET", REPO + "/issues/{number}/comments", list_comments, READ),
    operation("POST", REPO + "/issues/{number}/comments", comments_create, WRITE),
)


async def list_for_issue(call: RestCall) -> RestResponse:
    return paginate(call, issue_json.labels(call.hub.url, call.issue()))


async def add(call: RestCall) -> RestResponse:
    """Add labels. The body is `{"labels": [...]}` or a bare list."""
    issue = call.issue()
    try:
        body: Any = json.loads(call.raw or b"{}")
    except ValueError:
        raise Refusal(400, "Problems parsing JSON") from None
    asked = cast("dict[str, Any]", body).get("labels") if isinstance(body, dict) else body
    issue_actions.add_labels(call.hub, issue, label_names(asked), call.bearer.actor)
    return RestResponse(200, issue_json.labels(call.hub.url, issue))


async def labels_remove(call: RestCall) -> RestResponse:
    issue = call.issue()
    issue_actions.remove_label(call.hub, issue, call.parts["name"], call.bearer.actor)
    return RestResponse(200, issue_json.labels(call.hub.url, issue))


async def list_events(call: RestCall) -> RestResponse:
    """The label events of an issue's history, oldest first."""
    issue = call.issue()
    named = [entry for entry in issue.timeline if entry.event]
    return paginate(call, [issue_json.label_event(call.hub.url, issue, one) for one in named])


async def list_for_repo(call: RestCall) -> RestResponse:
    every = call.repo.labels.values()
    return paginate(call, [repository_json.label(call.hub.url, call.repo, one) for one in every])


async def labels_create(call: RestCall) -> RestResponse:
    body, name = call.json(), call.text("name", "Label")
    if len(name) > issue_actions.LONGEST_LABEL:
        raise invalid("Label", "name")
    if name.lower() in call.repo.labels:
        raise invalid("Label", "name", "already_exists")
    color = str(body.get("color", "ededed"))
    if not re.fullmatch(r"[0-9a-fA-F]{6}", color):
        raise invalid("Label", "color")
    label = Label(call.hub.next_id(), name, color, body.get("description"))
    call.repo.labels[name.lower()] = label
    return RestResponse(201, repository_json.label(call.hub.url, call.repo, label))


async def labels_show(call: RestCall) -> RestResponse:
    label = call.repo.labels.get(call.parts["name"].lower())
    if label is None:
        raise not_found()
    return RestResponse(200, repository_json.label(call.hub.url, call.repo, label))


LABELS_OPERATIONS = (
    operation("GET", REPO + "/issues/{number}/labels", list_for_issue, READ),
    operation("GET", REPO + "/issues/{number}/events", list_events, READ),
    operation("POST", REPO + "/issues/{number}/labels", add, WRITE),
    operation("DELETE", REPO + "/issues/{number}/labels/{name}", labels_remove, WRITE),
    operation("GET", REPO + "/labels", list_for_repo, READ),
    operation("POST", REPO + "/labels", labels_create, WRITE),
    operation("GET", REPO + "/labels/{name}", labels_show, READ),
)


async def list_timeline(call: RestCall) -> RestResponse:
    """The entries, oldest first: labels, and references from the same repository."""
    issue = call.issue()
    url = call.hub.url
    moments = [
        (entry.at, issue_json.label_event(url, issue, entry))
        for entry in issue.timeline
        if entry.event
    ]
    moments += [
        (other.created_at, issue_json.cross_reference(url, other))
        for other in call.repo.issues.values()
        if other is not issue and _has_mention(other, issue)
    ]
    moments.sort(key=lambda moment: moment[0])
    return paginate(call, [shape for _, shape in moments])


def _has_mention(other: Issue, issue: Issue) -> bool:
    texts = [other.title, other.body or "", *(comment.body for comment in other.comments)]
    name = re.escape(issue.repo.full_name)
    word = rf"(?:(?<![\w/])(?:{name})?#|/{name}/issues/){issue.number}\b"
    return any(re.search(word, text, re.I) for text in texts)


TIMELINE_OPERATIONS = (operation("GET", REPO + "/issues/{number}/timeline", list_timeline, READ),)
