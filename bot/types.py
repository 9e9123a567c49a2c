"""The nouns of the GitHub side. Plain frozen data: no clients, no I/O."""

from __future__ import annotations

from datetime import UTC, datetime
from enum import StrEnum
from typing import Any

from pydantic import BaseModel, ConfigDict, Field


class Frozen(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


def now() -> datetime:
    return datetime.now(UTC)


class RepoRef(Frozen):
    """A repository as an installation of the App sees it."""

    owner: str
    name: str
    installation: int

    @property
    def full_name(self) -> str:
        return f"{self.owner}/{self.name}"


class RunStatus(StrEnum):
    QUEUED = "queued"
    RUNNING = "running"
    OPENED_PULL_REQUEST = "opened pull request"
    NO_FIX = "no fix"
    REFUSED = "refused"
    FAILED = "failed"
    STOPPED = "stopped"

    @property
    def final(self) -> bool:
        return self not in (RunStatus.QUEUED, RunStatus.RUNNING)


class Failure(StrEnum):
    """Why a run ended without an answer: the closed list that maintainers meet.

    `comments.py` holds the sentence for each; an exception's own words are never shown.
    """

    ISSUE_GONE = "issue gone"
    """Deleted or transferred before the run."""
    ISSUE_CLOSED = "issue closed"
    REPOSITORY_GONE = "repository gone"
    """Deleted, renamed away, or the App was uninstalled."""
    REPOSITORY_EMPTY = "repository empty"
    CONFIG_INVALID = "config invalid"
    NOT_PYTHON = "not python"
    ENVIRONMENT = "environment"
    """The repository could not be installed."""
    MODEL_UNAVAILABLE = "model unavailable"
    MODEL_MISCONFIGURED = "model misconfigured"
    MODEL_REFUSED = "model refused"
    SANDBOX_UNAVAILABLE = "sandbox unavailable"
    PUBLISH_REFUSED = "publish refused"
    """The repository's rules forbid the branch or the pull request."""
    GITHUB_UNAVAILABLE = "github unavailable"
    NO_PROGRESS = "no progress"
    """Started again and again without a new checkpoint."""
    INTERNAL = "internal"
    """A bug of ours; the operator's log has it under the run's id."""


class Labelled(Frozen):
    """An open issue that wears the label, as GitHub lists it."""

    repo: RepoRef
    issue: int
    actor: str
    """Login of who put the label on."""
    at: datetime
    """When."""


class Run(Frozen):
    """The record of one attempt at one issue; kept for 30 days whatever its end."""

    id: str
    repo: RepoRef
    issue: int
    asked_by: str
    """Login of the person whose label started it."""
    delivery: str
    """X-GitHub-Delivery of the event that started it."""
    status: RunStatus = RunStatus.QUEUED
    created_at: datetime = Field(default_factory=now)
    started_at: datetime | None = None
    finished_at: datetime | None = None
    starts: int = 0
    """How many workers have begun it, this one included."""
    fruitless_starts: int = 0
    """How many in a row ended, by no one's wish, before a new checkpoint was saved."""
    checkpoints: int = 0
    """How many had been saved when the latest worker began."""
    not_before: datetime | None = None
    """No worker takes it up earlier: what it needs did not answer."""
    waiting_for: Failure | None = None
    """What did not answer, the last time."""
    waiting_since: datetime | None = None
    """Since when it has not got on for that reason."""
    base_commit: str = ""
    """Full SHA the run works on, fixed by the first worker."""
    branch: str = ""
    """What it pushed to, or was about to."""
    head_commit: str = ""
    """Full SHA of what it pushed there."""
    comment_id: int | None = None
    pull_request: int | None = None
    pull_request_url: str = ""
    failure: Failure | None = None
    detail: str = ""
    """For NO_FIX: the reason from the pipeline's closed list; for ENVIRONMENT: the command."""
    dollars: float = 0.0
    """Spent so far at list prices."""


def changed(run: Run, **fields: Any) -> Run:
    """`run` with some fields replaced."""
    return run.model_copy(update=fields)
