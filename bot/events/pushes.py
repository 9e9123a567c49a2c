"""Pushes; only those to the default branch matter."""

from __future__ import annotations

from pydantic import Field

from bot.events.base import (
    AccountPayload,
    Event,
    Ignored,
    Payload,
    RepositoryEvent,
    RepositoryPayload,
    read_payload,
)
from bot.types import Login

EVENT_NAME = "push"


class DefaultBranchPushed(RepositoryEvent):
    """The default branch has a new head."""


class _PushRepository(RepositoryPayload):
    default_branch: str = Field(min_length=1)


class _PushPayload(Payload):
    repository: _PushRepository  # pyright: ignore[reportIncompatibleVariableOverride] - frozen enough
    ref: str
    sender: AccountPayload = AccountPayload(login=Login("ghost"))
    """GitHub's schema lets it be left out."""


def read_push(delivery: str, body: bytes) -> Event:
    """Raises Malformed."""
    facts = read_payload(_PushPayload, EVENT_NAME, body)
    if facts.ref != f"refs/heads/{facts.repository.default_branch}":
        return Ignored(reason="another branch")
    return DefaultBranchPushed(
        **facts.event_fields(delivery),
    )
