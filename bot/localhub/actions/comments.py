"""Comments and reactions."""

from __future__ import annotations

from typing import TYPE_CHECKING

from bot.localhub import webhook_payloads
from bot.localhub.actions.issues import check_body
from bot.localhub.errors import Refusal, invalid
from bot.localhub.json import issues as shapes
from bot.localhub.state import Comment, Issue, Reaction, User, now

if TYPE_CHECKING:
    from bot.localhub.hub import LocalHub

REACTIONS = ("+1", "-1", "laugh", "confused", "heart", "hooray", "rocket", "eyes")


def add(hub: LocalHub, issue: Issue, body: str, by: User) -> Comment:
    """Add a comment.

    Raises:
        Refusal: the body is blank or too long (422), or the issue is locked (403).
    """
    _check_comment_body(body)
    if issue.locked and issue.repo.role_of(by) in ("none", "read"):
        raise Refusal(403, "Unable to create comment because issue is locked.")
    comment = Comment(hub.next_id(), issue, by, body)
    issue.comments.append(comment)
    issue.add_to_timeline(by, "commented", comment)
    _emit(hub, comment, "created", by)
    return comment


def edit(hub: LocalHub, comment: Comment, body: str, by: User) -> None:
    """Edit a comment.

    Raises:
        Refusal: the body is blank or too long (422).
    """
    _check_comment_body(body)
    before, comment.body = comment.body, body
    comment.updated_at = comment.issue.updated_at = now()
    _emit(hub, comment, "edited", by, changes={"body": {"from": before}})


def delete(hub: LocalHub, comment: Comment, by: User) -> None:
    """Delete a comment, also from the timeline."""
    issue = comment.issue
    issue.comments.remove(comment)
    issue.timeline = [line for line in issue.timeline if line.comment is not comment]
    _emit(hub, comment, "deleted", by)


def react(
    hub: LocalHub, reactions: list[Reaction], content: str, by: User
) -> tuple[Reaction, bool]:
    """Add a reaction, once for each person and kind; return it and whether it is new.

    Raises:
        Refusal: GitHub has no such reaction (422).
    """
    if content not in REACTIONS:
        raise invalid("Reaction", "content")
    for given in reactions:
        if given.user is by and given.content == content:
            return given, False
    reaction = Reaction(hub.next_id(), content, by)
    reactions.append(reaction)
    return reaction, True


def _check_comment_body(body: str) -> None:
    if not body.strip():
        raise invalid("IssueComment", "body", "custom", "body cannot be blank")
    check_body(body, "IssueComment")


def _emit(hub: LocalHub, comment: Comment, action: str, by: User, **more: object) -> None:
    payload = {
        "action": action,
        "issue": shapes.issue(hub.url, comment.issue),
        "comment": shapes.comment(hub.url, comment),
        **more,
    }
    webhook_payloads.emit(hub, "issue_comment", comment.issue.repo, by, payload)
