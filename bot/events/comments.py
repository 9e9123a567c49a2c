"""What people write: comments on issues, on pull requests, and on lines of a diff.

Only new ones are read. One that is edited or deleted later has been acted on, and is not again.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any, Final

from pydantic import BaseModel, Field

from bot.events.base import AccountPayload, Event, Payload, Reader, RepositoryEvent, read_payload
from bot.events.issues import IssuePart
from bot.types import CommentLocation, IssueVersion


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
