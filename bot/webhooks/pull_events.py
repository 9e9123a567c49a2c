"""Pull requests, reviews, checks and pushes."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Final

from pydantic import BaseModel, Field

from bot.data.run import Login
from bot.webhooks.payload import (
    AccountPayload,
    Event,
    EventFields,
    Ignored,
    LabelPayload,
    Payload,
    Reader,
    RepositoryEvent,
    RepositoryPayload,
    read_payload,
)
from pipeline.data.types import CommitSha

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


CONFIG_CHECK_ID: Final = re.compile(
    r"config-[^ ]+-(\d{1,9})-[0-9a-f]{40,64}(?:-again-[0-9A-Za-z-]+)?"
)
"""An external id as `bot.data.request.ConfigCheckRequest` makes it; its pull request."""


class ChecksCompleted(RepositoryEvent):
    """All checks of one App on the head of a pull request have ended."""

    pull: int


class CheckRerequested(RepositoryEvent):
    """Somebody asks for a check of ours, or all of them, to be made again."""

    pull: int
    head: CommitSha
    """Full SHA that the check is of."""
    check: str
    """Its name; empty for all."""


class CommitStatusChanged(RepositoryEvent):
    """What CI without check runs says of a commit has changed, and is final."""

    branches: tuple[str, ...]
    """Those that hold the commit; GitHub names ten at most."""


class _CheckPull(BaseModel):
    number: int = Field(gt=0)


class _WithPulls(BaseModel):
    """The suite of a run: GitHub's schema lets all of it be left out."""

    pull_requests: tuple[_CheckPull, ...] = ()


class _CheckSuite(_WithPulls):
    head_sha: CommitSha = Field(pattern=r"^[0-9a-f]{40,64}$")


class _CheckRun(BaseModel):
    name: str
    head_sha: CommitSha = Field(pattern=r"^[0-9a-f]{40,64}$")
    external_id: str | None = None
    check_suite: _WithPulls
    pull_requests: tuple[_CheckPull, ...] = ()


class _SuitePayload(Payload):
    check_suite: _CheckSuite


class _StatusBranch(BaseModel):
    name: str


class _StatusPayload(Payload):
    state: str
    branches: tuple[_StatusBranch, ...] = ()


class _CheckRunPayload(Payload):
    check_run: _CheckRun


def _suite_reader(make: Callable[[EventFields, int, CommitSha], RepositoryEvent]) -> Reader:
    """Reads what happens to a suite: `make` is given who, the pull request and its head."""

    def reader(delivery: str, body: bytes) -> Event:
        facts = read_payload(_SuitePayload, "check_suite", body)
        suite = facts.check_suite
        if not suite.pull_requests:
            return Ignored(reason="no pull request's checks")
        return make(facts.event_fields(delivery), suite.pull_requests[0].number, suite.head_sha)

    return reader


def _read_rerequest(delivery: str, body: bytes) -> Event:
    facts = read_payload(_CheckRunPayload, "check_run", body)
    run = facts.check_run
    pulls = run.pull_requests or run.check_suite.pull_requests
    # GitHub names no pull requests that come from forks; what we wrote on the check does.
    inspected = CONFIG_CHECK_ID.fullmatch(run.external_id or "")
    if not pulls and inspected is None:
        return Ignored(reason="no pull request's check")
    return CheckRerequested(
        **facts.event_fields(delivery),
        pull=int(inspected[1]) if inspected else pulls[0].number,
        head=run.head_sha,
        check=run.name,
    )


def read_status(delivery: str, body: bytes) -> Event:
    """Raises Malformed."""
    facts = read_payload(_StatusPayload, "status", body)
    if facts.state == "pending" or not facts.branches:
        return Ignored(reason="not final, or on no branch")
    return CommitStatusChanged(
        **facts.event_fields(delivery),
        branches=tuple(branch.name for branch in facts.branches),
    )


SUITE_READERS: Final[Mapping[str, Reader]] = {
    "completed": _suite_reader(lambda who, pull, _: ChecksCompleted(**who, pull=pull)),
    "rerequested": _suite_reader(
        lambda who, pull, head: CheckRerequested(**who, pull=pull, head=head, check="")
    ),
}
CHECK_RUN_READERS: Final[Mapping[str, Reader]] = {"rerequested": _read_rerequest}


PUSHES_EVENT_NAME = "push"


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
    facts = read_payload(_PushPayload, PUSHES_EVENT_NAME, body)
    if facts.ref != f"refs/heads/{facts.repository.default_branch}":
        return Ignored(reason="another branch")
    return DefaultBranchPushed(
        **facts.event_fields(delivery),
    )
