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
    Ignored,
    MalformedPayload,
    Reader,
    RepositoryEvent,
    check_delivery,
    read_action,
)
from bot.events.checks import CheckRerequested, ChecksCompleted, CommitStatusChanged
from bot.events.comments import CommentCreated
from bot.events.issues import IssueAssigned, IssueClosed, IssueGone, IssueLabeled, IssueUnlabeled
from bot.events.pulls import PullChanged, PullLabeled, PullPushed, ReviewSubmitted
from bot.events.pushes import DefaultBranchPushed
from bot.events.signature import MAX_BODY_BYTES, InvalidSignature, SignatureCheck, check_form

__all__ = [
    "MAX_BODY_BYTES",
    "CheckRerequested",
    "ChecksCompleted",
    "CommentCreated",
    "CommitStatusChanged",
    "DefaultBranchPushed",
    "Event",
    "Ignored",
    "InvalidSignature",
    "IssueAssigned",
    "IssueClosed",
    "IssueGone",
    "IssueLabeled",
    "IssueUnlabeled",
    "MalformedPayload",
    "PullChanged",
    "PullLabeled",
    "PullPushed",
    "RepositoryEvent",
    "ReviewSubmitted",
    "SignatureCheck",
    "check_form",
    "parse",
]

READERS: Final[Mapping[str, Mapping[str, Reader]]] = {
    "issues": issues.READERS,
    "issue_comment": comments.ISSUE_COMMENT_READERS,
    "pull_request": pulls.READERS,
    "pull_request_review": pulls.REVIEW_READERS,
    "pull_request_review_comment": comments.REVIEW_COMMENT_READERS,
    "check_suite": checks.SUITE_READERS,
    "check_run": checks.CHECK_RUN_READERS,
    "push": {"": pushes.read_push},
    "status": {"": checks.read_status},
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
    check_delivery(delivery)
    reader = readers.get("") or readers.get(read_action(name, body))
    return Ignored(reason="action") if reader is None else reader(delivery, body)
