"""What happens to issues: labels, assignees, their end."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Final

from pydantic import BaseModel, Field

from bot.events.base import AboutLabel, Account, Event, Happened, Ignored, Payload, Reader, read
from bot.types import IssueVersion

NAME: Final = "issues"


class IssueLabeled(Happened):
    """Somebody put a label on an issue."""

    issue: int
    label: str
    version: IssueVersion
    """The issue's text at that moment, which is what the actor had read."""


class IssueUnlabeled(Happened):
    """Somebody took a label off an issue."""

    issue: int
    label: str
    at: datetime | None
    """When, by GitHub's clock."""


class IssueClosed(Happened):
    issue: int
    at: datetime | None


class IssueGone(Happened):
    """Deleted, or transferred to another repository."""

    issue: int
    at: datetime | None


class IssueAssigned(Happened):
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


class _AboutIssue(Payload):
    issue: IssuePart


class _AboutLabel(AboutLabel, _AboutIssue):
    pass


class _AboutAssignee(_AboutIssue):
    assignee: Account | None = None


def _labeled(delivery: str, body: bytes) -> Event:
    facts = read(_AboutLabel, NAME, body)
    if facts.label is None:
        return Ignored(reason="no label")
    return IssueLabeled(
        **facts.who(delivery),
        issue=facts.issue.number,
        label=facts.label.name,
        version=facts.issue.version,
    )


def _unlabeled(delivery: str, body: bytes) -> Event:
    facts = read(_AboutLabel, NAME, body)
    if facts.label is None:
        return Ignored(reason="no label")
    return IssueUnlabeled(
        **facts.who(delivery),
        issue=facts.issue.number,
        label=facts.label.name,
        at=facts.issue.updated_at,
    )


def _assigned(delivery: str, body: bytes) -> Event:
    facts = read(_AboutAssignee, NAME, body)
    if facts.assignee is None:
        return Ignored(reason="no assignee")
    return IssueAssigned(
        **facts.who(delivery),
        issue=facts.issue.number,
        assignee=facts.assignee.login,
        version=facts.issue.version,
    )


def _ended(kind: type[IssueClosed | IssueGone]) -> Reader:
    def ended(delivery: str, body: bytes) -> Event:
        facts = read(_AboutIssue, NAME, body)
        return kind(
            **facts.who(delivery),
            issue=facts.issue.number,
            at=facts.issue.updated_at,
        )

    return ended


READERS: Final[Mapping[str, Reader]] = {
    "labeled": _labeled,
    "unlabeled": _unlabeled,
    "assigned": _assigned,
    "closed": _ended(IssueClosed),
    "deleted": _ended(IssueGone),
    "transferred": _ended(IssueGone),
}
