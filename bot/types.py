"""The nouns of the GitHub side. Plain frozen data: no clients, no I/O."""

from __future__ import annotations

from datetime import UTC, datetime
from enum import StrEnum
from typing import Final, Literal, NamedTuple

from pydantic import Field

from sandbox.frozen import Frozen as Frozen
from sandbox.frozen import replace as replace

QuotaSubject = Literal["person", "repository", "installation"]


CHECK_NAME: Final = "Capuchin's settings"
"""Of the check run on a pull request that edits the file."""


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
    PLANNED = "planned"
    """A dry run is over; nothing was opened, as asked."""
    JUDGED = "judged"
    """Pull requests were compared; nothing was pushed, as asked."""
    SWAPPED = "swapped"
    """A pull request holds another edit now."""
    NEEDS_CONFIRMATION = "asked back"
    """Somebody seems to work on the issue: whoever asked is to say it again."""
    REFUSED = "refused"
    FAILED = "failed"
    STOPPED = "stopped"
    FOLLOWED_UP = "tended"
    """A pull request of ours was looked after; what was due is done."""

    @property
    def final(self) -> bool:
        return self not in (RunStatus.QUEUED, RunStatus.RUNNING)


class Mode(StrEnum):
    """What a run is asked to come to."""

    FIX = "fix"
    """A pull request, as the repository's configuration says."""
    AUTO = "auto"
    """The same without asking back, and ready for review at once."""
    PLAN = "plan"
    """A dry run: where the cause seems to be, a reproduction test, an estimate; opens nothing."""
    FOLLOW_UP = "tend"
    """Not of an issue but of a pull request of ours: whatever is due there."""
    VERIFY = "verify"
    """The same, and the evidence is gathered again though nothing has changed."""
    JUDGE = "judge"
    """A verdict on pull requests that others opened; pushes nothing."""
    USE = "use"
    """Another edit of an earlier run takes the place of the one in its pull request."""

    @property
    def is_follow_up(self) -> bool:
        """Whether the run is of a pull request of ours."""
        return self in (Mode.FOLLOW_UP, Mode.VERIFY)


class CommentLocation(StrEnum):
    """Where a comment stands."""

    ISSUE = "issue"
    PULL = "pull request"
    """In the conversation of a pull request."""
    REVIEW = "review"
    """On a line of a pull request's diff."""


class IssueVersion(Frozen):
    """The text of an issue at one moment."""

    title: str
    body: str
    at: datetime | None = None
    """When the issue was last touched, by GitHub's clock."""


class StopReason(StrEnum):
    """Why a run was stopped; all but the command are seen to still hold before it is."""

    COMMAND = "command"
    UNLABELED = "unlabeled"
    CLOSED = "closed"
    GONE = "gone"
    """The issue was deleted or transferred."""
    DISABLED = "disabled"
    """The label that keeps us away was put on, the issue or our pull request."""


class Stop(Frozen):
    """Somebody wants a run to stop."""

    by: str
    why: StopReason
    at: datetime | None = None
    """When, by GitHub's clock; what waits and was asked for earlier ends with it. None: nothing."""
    label: str = ""
    """For DISABLED: as it is written on the issue."""


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


class IssueSnapshot(Frozen):
    """An issue that is closed, or wears none of the labels that a run of it may be due to."""

    repo: RepoRef
    issue: int
    closed: bool
    labels: tuple[str, ...] = ()


class LabeledIssue(Frozen):
    """An open issue that wears the label, as GitHub lists it."""

    repo: RepoRef
    issue: int
    actor: str
    """Login of who put the label on."""
    at: datetime
    """When."""
    label: str = ""
    """As it is spelled there."""
    mode: Mode = Mode.FIX
    """What it asks for."""


class Run(Frozen):
    """The record of one attempt at one issue; kept for 30 days whatever its end."""

    id: str
    repo: RepoRef
    issue: int
    """Number of the issue; of the pull request, where that is looked after."""
    asked_by: str
    """Login of the person whose label started it."""
    delivery: str
    """X-GitHub-Delivery of the event that started it, or what stands for it."""
    mode: Mode = Mode.FIX
    pulls: tuple[int, ...] = ()
    """For JUDGE: the pull requests."""
    candidate: int = 0
    """For USE: which edit, 1 for the one that was chosen, 2 for the next best."""
    published_run: str = ""
    """The issue's latest run, before this one, that opened a pull request: its id."""
    label: str = ""
    """The label that started it, without which it stops; empty when a comment did."""
    asked_at: datetime | None = None
    """When it was asked for, by GitHub's clock; what strangers write from then on is not read."""
    confirmed: bool = False
    """Whoever asked knows that somebody else seems to work on the issue."""
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
    """Its status comment's. One that a person deleted is not written again before the end."""
    queue_position: int = 0
    """Its place in the queue as the comment tells it; 0: it tells none."""
    page_url: str = ""
    """The address of its page; empty when there is none."""
    pull_request: int | None = None
    pull_request_url: str = ""
    omissions: str = ""
    """What was left out of the issue's text, in words; empty when nothing was."""
    end_reported: bool = False
    """Its last word is said; it may still have to be finished, and can no longer be stopped."""
    end_status: RunStatus | None = None
    """With `end_reported`: what its last word says that it has come to."""
    stop: Stop | None = None
    """Set once it is being stopped: nothing else but saying so is left to do."""
    failure: Failure | None = None
    detail: str = ""
    """For NO_FIX: the reason from the pipeline's closed list; for ENVIRONMENT: the command,
    what went wrong, and the end of the log, a line each and the rest."""
    dollars: float = 0.0
    """Spent so far at list prices."""


class QueuePosition(Frozen):
    """How a run stands that no worker has begun."""

    position: int
    """In the queue, from 1."""
    expected_seconds: float | None = None
    """Until a worker is expected to begin it, by how long the latest runs took; None: unknown."""


class QuotaLimit(NamedTuple):
    """What is used up."""

    subject: QuotaSubject
    runs: int
    """In a day."""


class SkippedComments(Frozen):
    """How much of an issue was not read, for people to know."""

    untrusted: int = 0
    """Comments left out, by people who may not command."""
    late: int = 0
    """Comments left out that were written or changed after the work was asked for."""
    edited: bool = False
    """The issue itself was; the text is that of before."""
