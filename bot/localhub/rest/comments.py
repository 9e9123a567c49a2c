"""Comments of issues and pull requests."""

from __future__ import annotations

from bot.localhub.actions import comments as actions
from bot.localhub.errors import Refusal, not_found
from bot.localhub.json import issues as shapes
from bot.localhub.rest.call import RestCall, RestResponse, operation, paginate
from bot.localhub.rest.issues import READ, WRITE
from bot.localhub.rest.repositories import REPO
from bot.localhub.state import Comment, stamp


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
    return paginate(call, [shapes.comment(call.hub.url, comment) for comment in shown])


async def list_all(call: RestCall) -> RestResponse:
    """The comments on all issues and pull requests, by default sorted by id, as on GitHub."""
    since = call.query.get("since", "")
    found = [c for one in call.repo.issues.values() for c in one.comments]
    shown = [c for c in found if stamp(c.updated_at) >= since]
    shown.sort(
        key=lambda c: (_sort_key(call, c), c.id), reverse=call.query.get("direction") == "desc"
    )
    return paginate(call, [shapes.comment(call.hub.url, comment) for comment in shown])


def _sort_key(call: RestCall, comment: Comment) -> str:
    orders = {"created": comment.created_at, "updated": comment.updated_at}
    moment = orders.get(call.query.get("sort", ""))
    return stamp(moment) if moment else ""


async def create(call: RestCall) -> RestResponse:
    issue = call.issue()
    comment = actions.add(call.hub, issue, call.text("body", "IssueComment"), call.bearer.actor)
    shape = shapes.comment(call.hub.url, comment)
    return RestResponse(201, shape, {"location": shape["url"]})


async def show(call: RestCall) -> RestResponse:
    return RestResponse(200, shapes.comment(call.hub.url, find_comment(call)))


async def change(call: RestCall) -> RestResponse:
    comment = find_comment(call)
    _require_ownership(call, comment)
    actions.edit(call.hub, comment, call.text("body", "IssueComment"), call.bearer.actor)
    return RestResponse(200, shapes.comment(call.hub.url, comment))


async def remove(call: RestCall) -> RestResponse:
    comment = find_comment(call)
    _require_ownership(call, comment)
    actions.delete(call.hub, comment, call.bearer.actor)
    return RestResponse(204)


def _require_ownership(call: RestCall, comment: Comment) -> None:
    """Only people with write access may change the comments of others."""
    who = call.bearer
    if comment.author is not who.actor and not who.is_allowed(call.repo, WRITE):
        raise Refusal(403, "Must have admin rights to Repository.")


OPERATIONS = (
    operation("GET", REPO + "/issues/comments", list_all, READ),
    operation("GET", REPO + "/issues/comments/{comment}", show, READ),
    operation("PATCH", REPO + "/issues/comments/{comment}", change, WRITE),
    operation("DELETE", REPO + "/issues/comments/{comment}", remove, WRITE),
    operation("GET", REPO + "/issues/{number}/comments", list_comments, READ),
    operation("POST", REPO + "/issues/{number}/comments", create, WRITE),
)
