"""What becomes of checks: a suite or status ends, and the button beside one of ours is pressed."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from pydantic import BaseModel, Field

from bot.events.base import Event, Happened, Ignored, Payload, Reader, read


class ChecksEnded(Happened):
    """All checks of one App on the head of a pull request have ended."""

    pull: int


class CheckAgain(Happened):
    """Somebody asks for a check of ours to be made again."""

    pull: int


class StatusSet(Happened):
    """What CI without check runs says of a commit has changed, and is final."""

    branches: tuple[str, ...]
    """Those that hold the commit; GitHub names ten at most."""


class _Pull(BaseModel):
    number: int = Field(gt=0)


class _Suite(BaseModel):
    pull_requests: tuple[_Pull, ...] = ()


class _Run(BaseModel):
    external_id: str | None = None
    check_suite: _Suite
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


def _ended(delivery: str, body: bytes) -> Event:
    facts = read(_AboutSuite, "check_suite", body)
    pulls = facts.check_suite.pull_requests
    if not pulls:
        return Ignored(reason="no pull request's checks")
    return ChecksEnded(
        repo=facts.repo,
        actor=facts.sender.login,
        by_bot=facts.sender.is_bot,
        delivery=delivery,
        pull=pulls[0].number,
    )


def _again(delivery: str, body: bytes) -> Event:
    facts = read(_AboutRun, "check_run", body)
    pulls = facts.check_run.pull_requests or facts.check_run.check_suite.pull_requests
    if not pulls:
        return Ignored(reason="no pull request's check")
    return CheckAgain(
        repo=facts.repo,
        actor=facts.sender.login,
        by_bot=facts.sender.is_bot,
        delivery=delivery,
        pull=pulls[0].number,
    )


def status_set(delivery: str, body: bytes) -> Event:
    """Raises Malformed."""
    facts = read(_AboutStatus, "status", body)
    if facts.state == "pending" or not facts.branches:
        return Ignored(reason="not final, or on no branch")
    return StatusSet(
        repo=facts.repo,
        actor=facts.sender.login,
        by_bot=facts.sender.is_bot,
        delivery=delivery,
        branches=tuple(branch.name for branch in facts.branches),
    )


SUITES: Final[Mapping[str, Reader]] = {"completed": _ended}
RUNS: Final[Mapping[str, Reader]] = {"rerequested": _again}
