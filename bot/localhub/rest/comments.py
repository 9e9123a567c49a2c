"""Comments of issues and pull requests."""

from __future__ import annotations

from bot.localhub.actions import comments as actions
from bot.localhub.errors import Refusal, not_found
from bot.localhub.json import issues as shapes
from bot.localhub.rest.call import Answer, Call, operation, paginate
from bot.localhub.rest.issues import READ, WRITE
from bot.localhub.rest.repositories import REPO
from bot.localhub.state import Comment, stamp


def found(call: Call) -> Comment:
    """The comment in the path. Raises Refusal (404)."""
    comment = call.repo.comment(call.number("comment"))
    if comment is None:
        raise not_found()
    return comment


async def list_comments(call: Call) -> Answer:
    since = call.query.get("since", "")
    shown = [c for c in call.issue().comments if stamp(c.updated_at) >= since]
    return paginate(call, [shapes.comment(call.hub.url, comment) for comment in shown])


async def list_all(call: Call) -> Answer:
    """Of all issues and pull requests of the repository; GitHub sorts by id unless told."""
    since = call.query.get("since", "")
    found = [c for one in call.repo.issues.values() for c in one.comments]
    shown = [c for c in found if stamp(c.updated_at) >= since]
    shown.sort(
        key=lambda c: (_moment(call, c), c.id), reverse=call.query.get("direction") == "desc"
    )
    return paginate(call, [shapes.comment(call.hub.url, comment) for comment in shown])


def _moment(call: Call, comment: Comment) -> str:
    orders = {"created": comment.created_at, "updated": comment.updated_at}
    moment = orders.get(call.query.get("sort", ""))
    return stamp(moment) if moment else ""


async def create(call: Call) -> Answer:
    issue = call.issue()
    comment = actions.add(call.hub, issue, call.text("body", "IssueComment"), call.who.actor)
    shape = shapes.comment(call.hub.url, comment)
    return Answer(201, shape, {"location": shape["url"]})


async def show(call: Call) -> Answer:
    return Answer(200, shapes.comment(call.hub.url, found(call)))


async def change(call: Call) -> Answer:
    comment = found(call)
    _own(call, comment)
    actions.edit(call.hub, comment, call.text("body", "IssueComment"), call.who.actor)
    return Answer(200, shapes.comment(call.hub.url, comment))


async def remove(call: Call) -> Answer:
    comment = found(call)
    _own(call, comment)
    actions.delete(call.hub, comment, call.who.actor)
    return Answer(204)


def _own(call: Call, comment: Comment) -> None:
    """People without write access change their own comments only."""
    who = call.who
    if comment.author is not who.actor and not who.may(call.repo, WRITE):
        raise Refusal(403, "Must have admin rights to Repository.")


OPERATIONS = (
    operation("GET", REPO + "/issues/comments", list_all, READ),
    operation("GET", REPO + "/issues/comments/{comment}", show, READ),
    operation("PATCH", REPO + "/issues/comments/{comment}", change, WRITE),
    operation("DELETE", REPO + "/issues/comments/{comment}", remove, WRITE),
    operation("GET", REPO + "/issues/{number}/comments", list_comments, READ),
    operation("POST", REPO + "/issues/{number}/comments", create, WRITE),
)
