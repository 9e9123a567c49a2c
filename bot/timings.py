"""Intervals that no variable sets."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict, Field


class Timings(BaseModel):
    """Intervals in seconds. No variable sets them: each has one good value; tests need others."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    sweep_seconds: float = Field(default=5, ge=0.2)
    """How often each worker looks for runs without a worker and for pull requests that are due; a
    run whose worker died waits no longer than this after its lease has ended."""
    missed_seconds: float = Field(default=600, ge=0.2)
    """How often GitHub is asked for events whose webhook was lost: rarely enough to leave most of
    an installation's 5,000 calls an hour to the runs."""
    queue_seconds: float = Field(default=30, ge=0.2)
    """How often a waiting run's place in the queue is updated for people to see."""
    no_worker_seconds: float = Field(default=300, ge=0)
    """For so long no worker may be heard of before the server says so on the issues that wait."""
    status_seconds: float = Field(default=5, ge=0)
    """The least time between two edits of a status comment; GitHub allows 80 writes a minute."""
    reverify_seconds: float = Field(default=600, ge=0)
    """The least time between two verifications of a pull request whose base branch moves: a busy
    branch moves every few minutes, and each verification occupies a sandbox."""
    hourly_writes: int = Field(default=400, ge=2)
    """Most writes to one repository in an hour: GitHub blocks who creates content 500 times."""
    hourly_writes_seconds: float = Field(default=3600, ge=0.2)
    """How long an hour of `hourly_writes` is."""
    archive_seconds: float = Field(default=600, ge=0.2)
    """How often is looked for ended runs that belong into the archive."""
    archive_after_seconds: float = Field(default=86_400, ge=0)
    """How long a run's checkpoints stay in Redis after its end: people look at its page then."""
    follow_up_seconds: float = Field(default=3600, ge=0.2)
    """How often an open pull request is checked without an event; webhooks are seldom lost."""
