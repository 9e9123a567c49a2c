"""Issues, comments, labels, timeline."""

import re
from collections.abc import Callable

from capuchin_demo.hub import issue_actions, issue_json, repository_json
from capuchin_demo.hub.github_errors import invalid, not_found
from capuchin_demo.hub.rest_call import Operation, RestCall, RestResponse, operation, paginate
from capuchin_demo.hub.rest_repositories import REPO
from capuchin_demo.hub.state import Comment, Issue, Label, Reaction, stamp

READ = "issues:read|pull_requests:read"
WRITE = "issues:write|pull_requests:write"


async def list_issues(call: RestCall) -> RestResponse:
    """List issues and, as on GitHub, pull requests, by default newest first."""
    found = [issue for issue in call.repo.issues.values() if _matches_query(call, issue)]
    if call.query.get("sort") == "updated":
        found.sort(key=lambda issue: (issue.updated_at, issue.number))
    if call.query.get("direction", "desc") != "asc":
        found.reverse()
    return paginate(call, [issue_json.issue(issue) for issue in found])


def _matches_query(call: RestCall, issue: Issue) -> bool:
    asked = call.query
    state, since = asked.get("state", "open"), asked.get("since")
    labels = {name.lower() for name in asked.get("labels", "").split(",") if name}
    return (
        state in ("all", issue.state)
        and labels <= {name.lower() for name in issue.labels}
        and (since is None or since <= stamp(issue.updated_at))
    )


async def show_issue(call: RestCall) -> RestResponse:
    return RestResponse(200, issue_json.issue(call.issue()))


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
    return paginate(call, [issue_json.comment(comment) for comment in shown])


async def list_all_comments(call: RestCall) -> RestResponse:
    """The comments on all issues and pull requests, by default sorted by id, as on GitHub."""
    since = call.query.get("since", "")
    found = [c for one in call.repo.issues.values() for c in one.comments]
    shown = [c for c in found if stamp(c.updated_at) >= since]
    shown.sort(
        key=lambda c: (_sort_key(call, c), c.id), reverse=call.query.get("direction") == "desc"
    )
    return paginate(call, [issue_json.comment(comment) for comment in shown])


def _sort_key(call: RestCall, comment: Comment) -> str:
    orders = {"created": comment.created_at, "updated": comment.updated_at}
    moment = orders.get(call.query.get("sort", ""))
    return stamp(moment) if moment else ""


async def create_comment(call: RestCall) -> RestResponse:
    issue = call.issue()
    comment = issue_actions.add_comment(
        call.state, issue, call.text("body", "IssueComment"), call.bearer.actor
    )
    return RestResponse(201, issue_json.comment(comment))


async def change_comment(call: RestCall) -> RestResponse:
    comment = find_comment(call)
    issue_actions.edit_comment(
        call.state, comment, call.text("body", "IssueComment"), call.bearer.actor
    )
    return RestResponse(200, issue_json.comment(comment))


async def add_labels(call: RestCall) -> RestResponse:
    issue, names = call.issue(), call.json()["labels"]
    issue_actions.add_labels(call.state, issue, names, call.bearer.actor)
    return RestResponse(200, issue_json.labels(issue))


async def remove_label(call: RestCall) -> RestResponse:
    issue = call.issue()
    issue_actions.remove_label(call.state, issue, call.parts["name"], call.bearer.actor)
    return RestResponse(200, issue_json.labels(issue))


async def list_events(call: RestCall) -> RestResponse:
    """The label and merge events of an issue's history, oldest first."""
    issue = call.issue()
    named = [entry for entry in issue.timeline if entry.event]
    return paginate(call, [issue_json.history_event(issue, one) for one in named])


async def create_label(call: RestCall) -> RestResponse:
    body, name = call.json(), call.text("name", "Label")
    if len(name) > issue_actions.LONGEST_LABEL:
        raise invalid("Label", "name")
    if name.lower() in call.repo.labels:
        raise invalid("Label", "name", "already_exists")
    color = str(body.get("color", "ededed"))
    if not re.fullmatch(r"[0-9a-fA-F]{6}", color):
        raise invalid("Label", "color")
    label = Label(call.state.next_id(), name, color, body.get("description"))
    call.repo.labels[name.lower()] = label
    return RestResponse(201, repository_json.label(call.repo, label))


async def show_label(call: RestCall) -> RestResponse:
    label = call.repo.labels.get(call.parts["name"].lower())
    if label is None:
        raise not_found()
    return RestResponse(200, repository_json.label(call.repo, label))


async def list_timeline(call: RestCall) -> RestResponse:
    """The entries, oldest first: labels, and references from the same repository."""
    issue = call.issue()
    named = [entry for entry in issue.timeline if entry.label]
    moments = [(entry.at, issue_json.history_event(issue, entry)) for entry in named]
    moments += [
        (other.created_at, issue_json.cross_reference(other))
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


def find_reactions(call: RestCall) -> list[Reaction]:
    """Those of the issue or comment in the path."""
    return find_comment(call).reactions if "comment" in call.parts else call.issue().reactions


ReactionFinder = Callable[[RestCall], list[Reaction]]


def reaction_operations(
    path: str, find: ReactionFinder, read: str, write: str
) -> tuple[Operation, ...]:
    """The operations on the reactions that `find` finds."""

    async def list_reactions(call: RestCall) -> RestResponse:
        content = call.query.get("content")
        shown = [one for one in find(call) if content in (None, one.content)]
        return paginate(call, [issue_json.reaction(one) for one in shown])

    async def create_reaction(call: RestCall) -> RestResponse:
        content = call.text("content", "Reaction")
        reaction, new = issue_actions.react(call.state, find(call), content, call.bearer.actor)
        return RestResponse(201 if new else 200, issue_json.reaction(reaction))

    async def delete_reaction(call: RestCall) -> RestResponse:
        every, number = find(call), call.number("reaction")
        reaction = next((one for one in every if one.id == number), None)
        if reaction is None:
            raise not_found()
        every.remove(reaction)
        return RestResponse(204)

    return (
        operation("GET", path + "/reactions", list_reactions, read),
        operation("POST", path + "/reactions", create_reaction, write),
        operation("DELETE", path + "/reactions/{reaction}", delete_reaction, write),
    )


async def create_issue(call: RestCall) -> RestResponse:
    body = call.json()
    issue = issue_actions.open_issue(
        call.state, call.repo, call.text("title", "Issue"), body.get("body"), call.bearer.actor
    )
    return RestResponse(201, issue_json.issue(issue))


async def change_issue(call: RestCall) -> RestResponse:
    hub, issue, by, body = call.state, call.issue(), call.bearer.actor, call.json()
    state = body.get("state")
    if state not in (None, "open", "closed"):
        raise invalid("Issue", "state")
    issue_actions.edit_issue(hub, issue, by, body.get("title"), body.get("body"))
    if state is not None:
        reason = body.get("state_reason") or "completed"
        issue_actions.set_issue_state(hub, issue, by, state, reason)
    return RestResponse(200, issue_json.issue(issue))


OPERATIONS = (
    operation("POST", REPO + "/issues", create_issue, "issues:write"),
    operation("PATCH", REPO + "/issues/{number}", change_issue, WRITE),
    operation("GET", REPO + "/issues", list_issues, READ),
    operation("GET", REPO + "/issues/comments", list_all_comments, READ),
    operation("PATCH", REPO + "/issues/comments/{comment}", change_comment, WRITE),
    operation("GET", REPO + "/issues/{number}", show_issue, READ),
    operation("GET", REPO + "/issues/{number}/comments", list_comments, READ),
    operation("POST", REPO + "/issues/{number}/comments", create_comment, WRITE),
    operation("POST", REPO + "/issues/{number}/labels", add_labels, WRITE),
    operation("DELETE", REPO + "/issues/{number}/labels/{name}", remove_label, WRITE),
    operation("GET", REPO + "/issues/{number}/events", list_events, READ),
    operation("GET", REPO + "/issues/{number}/timeline", list_timeline, READ),
    operation("POST", REPO + "/labels", create_label, WRITE),
    operation("GET", REPO + "/labels/{name}", show_label, READ),
    *reaction_operations(REPO + "/issues/comments/{comment}", find_reactions, READ, WRITE),
    *reaction_operations(REPO + "/issues/{number}", find_reactions, READ, WRITE),
)
