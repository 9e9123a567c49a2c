"""Reactions to issues, to comments and to comments on lines: the same three operations on each."""

from __future__ import annotations

from collections.abc import Callable

from bot.localhub.actions import comments as actions
from bot.localhub.actions.pulls import review_comment
from bot.localhub.errors import Refusal, not_found
from bot.localhub.json import issues as shapes
from bot.localhub.rest import pulls
from bot.localhub.rest.call import Answer, Call, Handler, Operation, operation, paginate
from bot.localhub.rest.comments import found
from bot.localhub.rest.issues import READ, WRITE
from bot.localhub.rest.repositories import REPO
from bot.localhub.state import Reaction

Of = Callable[[Call], list[Reaction]]


def _of_issue(call: Call) -> list[Reaction]:
    return call.issue().reactions


def _of_comment(call: Call) -> list[Reaction]:
    return found(call).reactions


def _of_line(call: Call) -> list[Reaction]:
    number = call.number("comment")
    for pull in call.repo.pulls:
        if comment := review_comment(pull, number):
            return comment.reactions
    raise not_found()


def _list(of: Of) -> Handler:
    async def list_reactions(call: Call) -> Answer:
        content = call.query.get("content")
        shown = [one for one in of(call) if content in (None, one.content)]
        return paginate(call, [shapes.reaction(call.hub.url, one) for one in shown])

    return list_reactions


def _create(of: Of) -> Handler:
    async def create(call: Call) -> Answer:
        every = of(call)
        content = call.text("content", "Reaction")
        reaction, new = actions.react(call.hub, every, content, call.who.actor)
        return Answer(201 if new else 200, shapes.reaction(call.hub.url, reaction))

    return create


def _remove(of: Of) -> Handler:
    async def remove(call: Call) -> Answer:
        every = of(call)
        number = call.number("reaction")
        reaction = next((one for one in every if one.id == number), None)
        if reaction is None:
            raise not_found()
        if reaction.user is not call.who.actor:
            raise Refusal(403, "You can only delete your own reactions.")
        every.remove(reaction)
        return Answer(204)

    return remove


def _three(path: str, of: Of, read: str, write: str) -> tuple[Operation, ...]:
    return (
        operation("GET", path, _list(of), read),
        operation("POST", path, _create(of), write),
        operation("DELETE", path + "/{reaction}", _remove(of), write),
    )


OPERATIONS = (
    *_three(REPO + "/issues/comments/{comment}/reactions", _of_comment, READ, WRITE),
    *_three(REPO + "/pulls/comments/{comment}/reactions", _of_line, pulls.READ, pulls.WRITE),
    *_three(REPO + "/issues/{number}/reactions", _of_issue, READ, WRITE),
)
