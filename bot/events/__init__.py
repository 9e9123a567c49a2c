"""Headers and raw body of a webhook to one small event of our own; only fields that are read.

GitHub's documents: "Validating webhook deliveries" and "Webhook events and payloads".

A new kind of event is one new file with a reader, and one line in `READERS`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from bot.events import checks, comments, issues, pulls, pushes
from bot.events.base import (
    Event,
    Happened,
    Ignored,
    Malformed,
    Reader,
    checked_delivery,
    read_action,
)
from bot.events.checks import CheckAgain, ChecksEnded, StatusSet
from bot.events.comments import Commented
from bot.events.issues import IssueAssigned, IssueClosed, IssueGone, IssueLabeled, IssueUnlabeled
from bot.events.pulls import PullChanged, PullLabeled, PullPushed, Reviewed
from bot.events.pushes import BaseMoved
from bot.events.signature import LARGEST_BYTES, NotSigned, check_signature

__all__ = [
    "LARGEST_BYTES",
    "BaseMoved",
    "CheckAgain",
    "ChecksEnded",
    "Commented",
    "Event",
    "Happened",
    "Ignored",
    "IssueAssigned",
    "IssueClosed",
    "IssueGone",
    "IssueLabeled",
    "IssueUnlabeled",
    "Malformed",
    "NotSigned",
    "PullChanged",
    "PullLabeled",
    "PullPushed",
    "Reviewed",
    "StatusSet",
    "check_signature",
    "parse",
]

READERS: Final[Mapping[str, Mapping[str, Reader]]] = {
    "issues": issues.READERS,
    "issue_comment": comments.ON_ISSUES,
    "pull_request": pulls.READERS,
    "pull_request_review": pulls.REVIEWS,
    "pull_request_review_comment": comments.IN_REVIEWS,
    "check_suite": checks.SUITES,
    "check_run": checks.RUNS,
    "push": {"": pushes.pushed},
    "status": {"": checks.status_set},
}
"""By `X-GitHub-Event`, then by the payload's action: what reads it. Everything else is ignored.

An event without actions has one reader, under no name.
"""


def parse(name: str, delivery: str, body: bytes) -> Event:
    """The event in a body whose signature was checked.

    `name` is `X-GitHub-Event`, `delivery` is `X-GitHub-Delivery`.

    Raises:
        Malformed: the body of an event that is handled here lacks what GitHub documents.
    """
    readers = READERS.get(name)
    if readers is None:
        return Ignored(reason=f"event {name[:50]}")
    checked_delivery(delivery)
    reader = readers.get("") or readers.get(read_action(name, body))
    return Ignored(reason="action") if reader is None else reader(delivery, body)
