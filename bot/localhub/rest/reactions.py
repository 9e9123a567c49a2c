"""Reactions to issues and to comments: the same three operations on both."""

from __future__ import annotations

from bot.localhub.actions import comments as actions
from bot.localhub.errors import Refusal, not_found
from bot.localhub.rest.call import Answer, Call, Handler, operation, paginate
from bot.localhub.rest.comments import found
from bot.localhub.rest.issues import READ, WRITE
from bot.localhub.rest.repositories import REPO
from bot.localhub.shapes import issues as shapes
from bot.localhub.state import Reaction


def _of_issue(call: Call) -> list[Reaction]:
    return call.issue().reactions


def _of_comment(call: Call) -> list[Reaction]:
    return found(call).reactions


def _list(on_comment: bool) -> Handler:
    async def list_reactions(call: Call) -> Answer:
        every = (_of_comment if on_comment else _of_issue)(call)
        content = call.query.get("content")
        shown = [one for one in every if content in (None, one.content)]
        return paginate(call, [shapes.reaction(call.hub.url, one) for one in shown])

    return list_reactions


def _create(on_comment: bool) -> Handler:
    async def create(call: Call) -> Answer:
        every = (_of_comment if on_comment else _of_issue)(call)
        content = call.text("content", "Reaction")
        reaction, new = actions.react(call.hub, every, content, call.who.actor)
        return Answer(201 if new else 200, shapes.reaction(call.hub.url, reaction))

    return create


def _remove(on_comment: bool) -> Handler:
    async def remove(call: Call) -> Answer:
        every = (_of_comment if on_comment else _of_issue)(call)
        number = call.number("reaction")
        reaction = next((one for one in every if one.id == number), None)
        if reaction is None:
            raise not_found()
        if reaction.user is not call.who.actor:
            raise Refusal(403, "You can only delete your own reactions.")
        every.remove(reaction)
        return Answer(204)

    return remove


ISSUE = REPO + "/issues/{number}/reactions"
COMMENT = REPO + "/issues/comments/{comment}/reactions"

OPERATIONS = (
    operation("GET", COMMENT, _list(on_comment=True), READ),
    operation("POST", COMMENT, _create(on_comment=True), WRITE),
    operation("DELETE", COMMENT + "/{reaction}", _remove(on_comment=True), WRITE),
    operation("GET", ISSUE, _list(on_comment=False), READ),
    operation("POST", ISSUE, _create(on_comment=False), WRITE),
    operation("DELETE", ISSUE + "/{reaction}", _remove(on_comment=False), WRITE),
)
