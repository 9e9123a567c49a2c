"""What people write: comments on issues, on pull requests, and on lines of a diff.

Only new ones are read. One that is edited or deleted later has been acted on, and is not again.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any, Final

from pydantic import BaseModel, Field

from bot.events.base import Account, Event, Happened, Payload, Reader, read
from bot.events.issues import IssuePart
from bot.types import IssueVersion, Place


class Commented(Happened):
    """Somebody wrote a comment; `actor` is its author."""

    issue: int
    """Number of the issue or pull request."""
    place: Place
    comment: int
    """The comment's id; those of ISSUE and PULL are of one kind, those of REVIEW of another."""
    text: str
    at: datetime
    """When it was written, by GitHub's clock."""
    version: IssueVersion | None
    """The issue's text at that moment; None for a pull request."""


class _Comment(BaseModel):
    id: int
    body: str | None = None
    created_at: datetime
    user: Account | None = None


class _Issue(IssuePart):
    pull_request: dict[str, Any] | None = None


class _OnIssue(Payload):
    issue: _Issue
    comment: _Comment


class _Pull(BaseModel):
    number: int = Field(gt=0)


class _InReview(Payload):
    pull_request: _Pull
    comment: _Comment


def _on_issue(delivery: str, body: bytes) -> Event:
    facts = read(_OnIssue, "issue_comment", body)
    pull = facts.issue.pull_request is not None
    return _commented(
        facts,
        facts.comment,
        delivery,
        issue=facts.issue.number,
        place=Place.PULL if pull else Place.ISSUE,
        version=None if pull else facts.issue.version,
    )


def _in_review(delivery: str, body: bytes) -> Event:
    facts = read(_InReview, "pull_request_review_comment", body)
    return _commented(
        facts,
        facts.comment,
        delivery,
        issue=facts.pull_request.number,
        place=Place.REVIEW,
        version=None,
    )


def _commented(
    facts: Payload,
    comment: _Comment,
    delivery: str,
    *,
    issue: int,
    place: Place,
    version: IssueVersion | None,
) -> Commented:
    author = comment.user or facts.sender
    return Commented(
        repo=facts.repo,
        actor=author.login,
        by_bot=author.is_bot or facts.sender.is_bot,
        delivery=delivery,
        issue=issue,
        place=place,
        comment=comment.id,
        text=comment.body or "",
        at=comment.created_at,
        version=version,
    )


ON_ISSUES: Final[Mapping[str, Reader]] = {"created": _on_issue}
IN_REVIEWS: Final[Mapping[str, Reader]] = {"created": _in_review}
