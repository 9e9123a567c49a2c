"""Issues, their labels, and comments.

Only new ones are read. One that is edited or deleted later has been acted on, and is not again.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any, Final

from pydantic import BaseModel, Field

from bot.data.run import CommentLocation, IssueVersion
from bot.webhooks.payload import (
    AccountPayload,
    Event,
    Ignored,
    LabelPayload,
    Payload,
    Reader,
    RepositoryEvent,
    read_payload,
)

EVENT_NAME: Final = "issues"


class IssueLabeled(RepositoryEvent):
    """Somebody put a label on an issue."""

    issue: int
    label: str
    version: IssueVersion
    """The issue's text at that moment, which is what the actor had read."""


class IssueUnlabeled(RepositoryEvent):
    """Somebody took a label off an issue."""

    issue: int
    label: str
    at: datetime | None
    """When, by GitHub's clock."""


class IssueClosed(RepositoryEvent):
    issue: int
    at: datetime | None


class IssueGone(RepositoryEvent):
    """Deleted, or transferred to another repository."""

    issue: int
    at: datetime | None


class IssueAssigned(RepositoryEvent):
    """Somebody assigned somebody."""

    issue: int
    assignee: str
    version: IssueVersion


class IssuePart(BaseModel):
    """`issue` in a payload."""

    number: int = Field(gt=0)
    title: str = ""
    body: str | None = None
    updated_at: datetime | None = None

    @property
    def version(self) -> IssueVersion:
        return IssueVersion(title=self.title, body=self.body or "", at=self.updated_at)


class _IssuePayload(Payload):
    issue: IssuePart


class _IssueLabelPayload(LabelPayload, _IssuePayload):
    pass


class _AssigneePayload(_IssuePayload):
    assignee: AccountPayload | None = None


def _read_labeled(delivery: str, body: bytes) -> Event:
    facts = read_payload(_IssueLabelPayload, EVENT_NAME, body)
    if facts.label is None:
        return Ignored(reason="no label")
    return IssueLabeled(
        **facts.event_fields(delivery),
        issue=facts.issue.number,
        label=facts.label.name,
        version=facts.issue.version,
    )


def _read_unlabeled(delivery: str, body: bytes) -> Event:
    facts = read_payload(_IssueLabelPayload, EVENT_NAME, body)
    if facts.label is None:
        return Ignored(reason="no label")
    return IssueUnlabeled(
        **facts.event_fields(delivery),
        issue=facts.issue.number,
        label=facts.label.name,
        at=facts.issue.updated_at,
    )


def _read_assigned(delivery: str, body: bytes) -> Event:
    facts = read_payload(_AssigneePayload, EVENT_NAME, body)
    if facts.assignee is None:
        return Ignored(reason="no assignee")
    return IssueAssigned(
        **facts.event_fields(delivery),
        issue=facts.issue.number,
        assignee=facts.assignee.login,
        version=facts.issue.version,
    )


def _end_reader(kind: type[IssueClosed | IssueGone]) -> Reader:
    def read_end(delivery: str, body: bytes) -> Event:
        facts = read_payload(_IssuePayload, EVENT_NAME, body)
        return kind(
            **facts.event_fields(delivery),
            issue=facts.issue.number,
            at=facts.issue.updated_at,
        )

    return read_end


READERS: Final[Mapping[str, Reader]] = {
    "labeled": _read_labeled,
    "unlabeled": _read_unlabeled,
    "assigned": _read_assigned,
    "closed": _end_reader(IssueClosed),
    "deleted": _end_reader(IssueGone),
    "transferred": _end_reader(IssueGone),
}


class CommentCreated(RepositoryEvent):
    """Somebody wrote a comment; `actor` is its author."""

    issue: int
    """Number of the issue or pull request."""
    location: CommentLocation
    comment: int
    """The comment's id; those of ISSUE and PULL are of one kind, those of REVIEW of another."""
    text: str
    at: datetime
    """When it was written, by GitHub's clock."""
    version: IssueVersion | None
    """The issue's text at that moment; None for a pull request."""


class _CommentPart(BaseModel):
    id: int
    body: str | None = None
    created_at: datetime
    user: AccountPayload | None = None


class _IssueOrPull(IssuePart):
    pull_request: dict[str, Any] | None = None


class _IssueCommentPayload(Payload):
    issue: _IssueOrPull
    comment: _CommentPart


class _ReviewPull(BaseModel):
    number: int = Field(gt=0)


class _ReviewCommentPayload(Payload):
    pull_request: _ReviewPull
    comment: _CommentPart


def _read_issue_comment(delivery: str, body: bytes) -> Event:
    facts = read_payload(_IssueCommentPayload, "issue_comment", body)
    pull = facts.issue.pull_request is not None
    return _comment_created(
        facts,
        facts.comment,
        delivery,
        issue=facts.issue.number,
        location=CommentLocation.PULL if pull else CommentLocation.ISSUE,
        version=None if pull else facts.issue.version,
    )


def _read_review_comment(delivery: str, body: bytes) -> Event:
    facts = read_payload(_ReviewCommentPayload, "pull_request_review_comment", body)
    return _comment_created(
        facts,
        facts.comment,
        delivery,
        issue=facts.pull_request.number,
        location=CommentLocation.REVIEW,
        version=None,
    )


def _comment_created(
    facts: Payload,
    comment: _CommentPart,
    delivery: str,
    *,
    issue: int,
    location: CommentLocation,
    version: IssueVersion | None,
) -> CommentCreated:
    author = comment.user or facts.sender
    return CommentCreated(
        repo=facts.repo,
        actor=author.login,
        by_bot=author.is_bot or facts.sender.is_bot,
        delivery=delivery,
        issue=issue,
        location=location,
        comment=comment.id,
        text=comment.body or "",
        at=comment.created_at,
        version=version,
    )


ISSUE_COMMENT_READERS: Final[Mapping[str, Reader]] = {"created": _read_issue_comment}
REVIEW_COMMENT_READERS: Final[Mapping[str, Reader]] = {"created": _read_review_comment}
