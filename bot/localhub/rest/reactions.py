"""Reactions to issues, to comments and to comments on lines: three operations for each."""

from __future__ import annotations

from collections.abc import Callable

from bot.localhub.actions import comments as actions
from bot.localhub.actions.pulls import find_review_comment
from bot.localhub.errors import Refusal, not_found
from bot.localhub.json import issues as shapes
from bot.localhub.rest import pulls
from bot.localhub.rest.call import Handler, Operation, RestCall, RestResponse, operation, paginate
from bot.localhub.rest.comments import find_comment
from bot.localhub.rest.issues import READ, WRITE
from bot.localhub.rest.repositories import REPO
from bot.localhub.state import Reaction

FindReactions = Callable[[RestCall], list[Reaction]]


def _issue_reactions(call: RestCall) -> list[Reaction]:
    return call.issue().reactions


def _comment_reactions(call: RestCall) -> list[Reaction]:
    return find_comment(call).reactions


def _line_reactions(call: RestCall) -> list[Reaction]:
    number = call.number("comment")
    for pull in call.repo.pulls:
        if comment := find_review_comment(pull, number):
            return comment.reactions
    raise not_found()


def _list_handler(find: FindReactions) -> Handler:
    async def list_reactions(call: RestCall) -> RestResponse:
        content = call.query.get("content")
        shown = [one for one in find(call) if content in (None, one.content)]
        return paginate(call, [shapes.reaction(call.hub.url, one) for one in shown])

    return list_reactions


def _create_handler(find: FindReactions) -> Handler:
    async def create(call: RestCall) -> RestResponse:
        every = find(call)
        content = call.text("content", "Reaction")
        reaction, new = actions.react(call.hub, every, content, call.bearer.actor)
        return RestResponse(201 if new else 200, shapes.reaction(call.hub.url, reaction))

    return create


def _remove_handler(find: FindReactions) -> Handler:
    async def remove(call: RestCall) -> RestResponse:
        every = find(call)
        number = call.number("reaction")
        reaction = next((one for one in every if one.id == number), None)
        if reaction is None:
            raise not_found()
        if reaction.user is not call.bearer.actor:
            raise Refusal(403, "You can only delete your own reactions.")
        every.remove(reaction)
        return RestResponse(204)

    return remove


def _reaction_operations(
    path: str, find: FindReactions, read: str, write: str
) -> tuple[Operation, ...]:
    return (
        operation("GET", path, _list_handler(find), read),
        operation("POST", path, _create_handler(find), write),
        operation("DELETE", path + "/{reaction}", _remove_handler(find), write),
    )


OPERATIONS = (
    *_reaction_operations(
        REPO + "/issues/comments/{comment}/reactions", _comment_reactions, READ, WRITE
    ),
    *_reaction_operations(
        REPO + "/pulls/comments/{comment}/reactions", _line_reactions, pulls.READ, pulls.WRITE
    ),
    *_reaction_operations(REPO + "/issues/{number}/reactions", _issue_reactions, READ, WRITE),
)
