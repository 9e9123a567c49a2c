"""What happens to pull requests: they come, get new commits and reviews, and are closed."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from pydantic import BaseModel, Field

from bot.events.base import (
    Event,
    Ignored,
    LabelPayload,
    Payload,
    Reader,
    RepositoryEvent,
    read_payload,
)
from bot.types import CommitSha

EVENT_NAME: Final = "pull_request"


class PullPushed(RepositoryEvent):
    """A pull request has a head that it did not have before, or is open again."""

    pull: int
    """Its number."""
    head: CommitSha
    """Full SHA; of a fork, too, for GitHub keeps those commits with the base's."""


class PullChanged(RepositoryEvent):
    """A pull request was closed, or made ready for review."""

    pull: int


class PullLabeled(RepositoryEvent):
    """Somebody put a label on a pull request."""

    pull: int
    label: str


class ReviewSubmitted(RepositoryEvent):
    """Somebody reviewed a pull request."""

    pull: int


class _PullHead(BaseModel):
    sha: CommitSha = Field(pattern=r"^[0-9a-f]{40,64}$")


class _PullPart(BaseModel):
    number: int = Field(gt=0)
    head: _PullHead


class _PullPayload(Payload):
    pull_request: _PullPart


class _PullLabelPayload(LabelPayload, _PullPayload):
    pass


def _read_pushed(delivery: str, body: bytes) -> Event:
    facts = read_payload(_PullPayload, EVENT_NAME, body)
    return PullPushed(
        **facts.event_fields(delivery),
        pull=facts.pull_request.number,
        head=facts.pull_request.head.sha,
    )


def _read_changed(delivery: str, body: bytes) -> Event:
    facts = read_payload(_PullPayload, EVENT_NAME, body)
    return PullChanged(
        **facts.event_fields(delivery),
        pull=facts.pull_request.number,
    )


def _read_labeled(delivery: str, body: bytes) -> Event:
    facts = read_payload(_PullLabelPayload, EVENT_NAME, body)
    if facts.label is None:
        return Ignored(reason="no label")
    return PullLabeled(
        **facts.event_fields(delivery),
        pull=facts.pull_request.number,
        label=facts.label.name,
    )


def _read_review(delivery: str, body: bytes) -> Event:
    facts = read_payload(_PullPayload, "pull_request_review", body)
    return ReviewSubmitted(
        **facts.event_fields(delivery),
        pull=facts.pull_request.number,
    )


READERS: Final[Mapping[str, Reader]] = {
    "opened": _read_pushed,
    "reopened": _read_pushed,
    "synchronize": _read_pushed,
    "closed": _read_changed,
    "converted_to_draft": _read_changed,
    "labeled": _read_labeled,
}
REVIEW_READERS: Final[Mapping[str, Reader]] = {"submitted": _read_review}
