"""What happens to issues: labels, assignees, their end."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Final

from pydantic import BaseModel, Field

from bot.events.base import (
    AccountPayload,
    Event,
    Ignored,
    LabelPayload,
    Payload,
    Reader,
    RepositoryEvent,
    read_payload,
)
from bot.types import IssueVersion

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
