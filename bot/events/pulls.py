"""What happens to pull requests: they come, get new commits and reviews, and are closed."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from pydantic import BaseModel, Field

from bot.events.base import AboutLabel, Event, Happened, Ignored, Payload, Reader, read

NAME: Final = "pull_request"


class PullPushed(Happened):
    """A pull request has a head that it did not have before, or is open again."""

    pull: int
    """Its number."""
    head: str
    """Full SHA; of a fork, too, for GitHub keeps those commits with the base's."""


class PullChanged(Happened):
    """A pull request was closed, or made ready for review."""

    pull: int


class PullLabeled(Happened):
    """Somebody put a label on a pull request."""

    pull: int
    label: str


class Reviewed(Happened):
    """Somebody reviewed a pull request."""

    pull: int


class _Head(BaseModel):
    sha: str = Field(pattern=r"^[0-9a-f]{40,64}$")


class _Pull(BaseModel):
    number: int = Field(gt=0)
    head: _Head


class _AboutPull(Payload):
    pull_request: _Pull


class _AboutLabel(AboutLabel, _AboutPull):
    pass


def _pushed(delivery: str, body: bytes) -> Event:
    facts = read(_AboutPull, NAME, body)
    return PullPushed(
        **facts.who(delivery),
        pull=facts.pull_request.number,
        head=facts.pull_request.head.sha,
    )


def _changed(delivery: str, body: bytes) -> Event:
    facts = read(_AboutPull, NAME, body)
    return PullChanged(
        **facts.who(delivery),
        pull=facts.pull_request.number,
    )


def _labeled(delivery: str, body: bytes) -> Event:
    facts = read(_AboutLabel, NAME, body)
    if facts.label is None:
        return Ignored(reason="no label")
    return PullLabeled(
        **facts.who(delivery),
        pull=facts.pull_request.number,
        label=facts.label.name,
    )


def _reviewed(delivery: str, body: bytes) -> Event:
    facts = read(_AboutPull, "pull_request_review", body)
    return Reviewed(
        **facts.who(delivery),
        pull=facts.pull_request.number,
    )


READERS: Final[Mapping[str, Reader]] = {
    "opened": _pushed,
    "reopened": _pushed,
    "synchronize": _pushed,
    "closed": _changed,
    "converted_to_draft": _changed,
    "labeled": _labeled,
}
REVIEWS: Final[Mapping[str, Reader]] = {"submitted": _reviewed}
