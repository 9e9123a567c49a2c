"""What becomes of checks: suites and statuses end; the button beside one or all is pressed."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Final

from pydantic import BaseModel, Field

from bot.events.base import Event, Happened, Ignored, Payload, Reader, Who, read

INSPECTED: Final = re.compile(r"config-[^ ]+-(\d{1,9})-[0-9a-f]{40,64}(?:-again-[0-9A-Za-z-]+)?")
"""An external id as `bot.triggers.requests.Inspect` makes it; its pull request."""


class ChecksEnded(Happened):
    """All checks of one App on the head of a pull request have ended."""

    pull: int


class CheckAgain(Happened):
    """Somebody asks for a check of ours, or all of them, to be made again."""

    pull: int
    head: str
    """Full SHA that the check is of."""
    check: str
    """Its name; empty for all."""


class StatusSet(Happened):
    """What CI without check runs says of a commit has changed, and is final."""

    branches: tuple[str, ...]
    """Those that hold the commit; GitHub names ten at most."""


class _Pull(BaseModel):
    number: int = Field(gt=0)


class _Of(BaseModel):
    """The suite of a run: GitHub's schema lets all of it be left out."""

    pull_requests: tuple[_Pull, ...] = ()


class _Suite(_Of):
    head_sha: str = Field(pattern=r"^[0-9a-f]{40,64}$")


class _Run(BaseModel):
    name: str
    head_sha: str = Field(pattern=r"^[0-9a-f]{40,64}$")
    external_id: str | None = None
    check_suite: _Of
    pull_requests: tuple[_Pull, ...] = ()


class _AboutSuite(Payload):
    check_suite: _Suite


class _Branch(BaseModel):
    name: str


class _AboutStatus(Payload):
    state: str
    branches: tuple[_Branch, ...] = ()


class _AboutRun(Payload):
    check_run: _Run


def _of_suite(make: Callable[[Who, int, str], Happened]) -> Reader:
    """Reads what happens to a suite: `make` is given who, the pull request and its head."""

    def reader(delivery: str, body: bytes) -> Event:
        facts = read(_AboutSuite, "check_suite", body)
        suite = facts.check_suite
        if not suite.pull_requests:
            return Ignored(reason="no pull request's checks")
        return make(facts.who(delivery), suite.pull_requests[0].number, suite.head_sha)

    return reader


def _again(delivery: str, body: bytes) -> Event:
    facts = read(_AboutRun, "check_run", body)
    run = facts.check_run
    pulls = run.pull_requests or run.check_suite.pull_requests
    # GitHub names no pull requests that come from forks; what we wrote on the check does.
    inspected = INSPECTED.fullmatch(run.external_id or "")
    if not pulls and inspected is None:
        return Ignored(reason="no pull request's check")
    return CheckAgain(
        **facts.who(delivery),
        pull=int(inspected[1]) if inspected else pulls[0].number,
        head=run.head_sha,
        check=run.name,
    )


def status_set(delivery: str, body: bytes) -> Event:
    """Raises Malformed."""
    facts = read(_AboutStatus, "status", body)
    if facts.state == "pending" or not facts.branches:
        return Ignored(reason="not final, or on no branch")
    return StatusSet(
        **facts.who(delivery),
        branches=tuple(branch.name for branch in facts.branches),
    )


SUITES: Final[Mapping[str, Reader]] = {
    "completed": _of_suite(lambda who, pull, _: ChecksEnded(**who, pull=pull)),
    "rerequested": _of_suite(
        lambda who, pull, head: CheckAgain(**who, pull=pull, head=head, check="")
    ),
}
RUNS: Final[Mapping[str, Reader]] = {"rerequested": _again}
