"""Pushes, of which only those to the default branch tell us anything."""

from __future__ import annotations

from pydantic import Field

from bot.events.base import Account, Event, Happened, Ignored, Payload, Repository, read

NAME = "push"


class BaseMoved(Happened):
    """The default branch has a new head."""


class _Repository(Repository):
    default_branch: str = Field(min_length=1)


class _Push(Payload):
    repository: _Repository  # pyright: ignore[reportIncompatibleVariableOverride] - frozen enough
    ref: str
    sender: Account = Account(login="ghost")
    """GitHub's schema lets it be left out."""


def pushed(delivery: str, body: bytes) -> Event:
    """Raises Malformed."""
    facts = read(_Push, NAME, body)
    if facts.ref != f"refs/heads/{facts.repository.default_branch}":
        return Ignored(reason="another branch")
    return BaseMoved(
        **facts.who(delivery),
    )
