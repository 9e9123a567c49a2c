"""What people did in a sequence."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime
from typing import NamedTuple

from capuchin_demo.hub.state import Comment, Issue, Pull, Review


@dataclass
class Said:
    """A command that somebody gave."""

    issue: Issue
    comment: Comment
    word: str
    who: str
    at: datetime
    edited: bool = False
    deleted: bool = False


class Told(NamedTuple):
    """A command in the conversation of a pull request of ours."""

    pull: Pull
    comment: Comment
    word: str
    who: str


class Reviewed(NamedTuple):
    pull: Pull
    review: Review
    who: str


@dataclass
class Labelled:
    """A label of ours that somebody put on."""

    issue: Issue
    guid: str
    label: str
    who: str
    at: datetime
    on_closed: bool = False
    """The issue was closed: nothing is done there, and nobody looks for it."""


@dataclass
class History:
    """What people did in a sequence."""

    said: list[Said] = field(default_factory=list[Said])
    labelled: list[Labelled] = field(default_factory=list[Labelled])
    unlabelled: list[tuple[Issue, datetime]] = field(default_factory=list[tuple[Issue, datetime]])
    halted: list[tuple[Issue, datetime]] = field(default_factory=list[tuple[Issue, datetime]])
    """Each moment at which all work on an issue was to end: a stop, or its closing."""
    deleted: set[int] = field(default_factory=set[int])
    """Comments of ours that somebody deleted."""
    gone: list[Issue] = field(default_factory=list[Issue])
    """Deleted or transferred."""
    cut: set[str] = field(default_factory=set[str])
    """Repositories that the App was taken off, if only for a while."""
    told: list[Told] = field(default_factory=list[Told])
    reviewed: list[Reviewed] = field(default_factory=list[Reviewed])
    pushed: dict[int, str] = field(default_factory=dict[int, str])
    """What somebody pushed last to a pull request of ours, by its id."""
