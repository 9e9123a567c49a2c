"""The nouns of the GitHub side. Plain frozen data: no clients, no I/O."""

from datetime import UTC, datetime
from enum import StrEnum
from typing import Final, NamedTuple, NewType

from pydantic import Field

from bot.data.failure import NO_FACTS, Failure, FailureFacts, SwapProblem
from pipeline.data.types import CommitSha, NoFixReason
from sandbox.frozen import Frozen

RunId = NewType("RunId", str)
"""The id of a run: 32 hexadecimal digits, or `cli-…` on the command line."""
Login = NewType("Login", str)
"""The name of an account on GitHub, without `@`; an App's ends with `[bot]`."""


CHECK_NAME: Final = "Capuchin's settings"


def is_app(login: Login) -> bool:
    """Whether `login` is an App's: no person's can hold a bracket."""
    return login.endswith("[bot]")


def now() -> datetime:
    return datetime.now(UTC)


class RepoRef(Frozen):
    """A repository, and the installation of the App that gives access to it.

    Only the id is the same after a rename or a transfer.
    """

    id: int
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
    JUDGED = "judged"
    SWAPPED = "swapped"
    NEEDS_CONFIRMATION = "asked back"
    """Somebody seems to work on the issue; the requester must confirm the request."""
    REFUSED = "refused"
    FAILED = "failed"
    STOPPED = "stopped"
    FOLLOWED_UP = "tended"

    @property
    def final(self) -> bool:
        return self not in (RunStatus.QUEUED, RunStatus.RUNNING)

    @property
    def words(self) -> str:
        """The status as people read it; only records keep its value."""
        words = {RunStatus.SWAPPED: "edit replaced", RunStatus.FOLLOWED_UP: "followed up"}
        return words.get(self, self.value)


class Mode(StrEnum):
    FIX = "fix"
    AUTO = "auto"
    PLAN = "plan"
    """A dry run: the suspected cause, a reproduction test and a cost estimate; opens nothing."""
    FOLLOW_UP = "follow-up"
    VERIFY = "verify"
    JUDGE = "judge"
    USE = "use"

    @property
    def is_follow_up(self) -> bool:
        return self in (Mode.FOLLOW_UP, Mode.VERIFY)

    @property
    def lane(self) -> "Lane":
        """Where the run waits for its turn."""
        return Lane.PULLS if self.is_follow_up or self is Mode.USE else Lane.ISSUES


class Lane(StrEnum):
    """A queue of its own: runs of one lane never wait for those of another."""

    ISSUES = "issues"
    PULLS = "pulls"
    """Short work on our pull requests, which a reviewer waits for."""


class CommentLocation(StrEnum):
    ISSUE = "issue"
    PULL = "pull request"
    REVIEW = "review"
    """A comment on a line."""
    REVIEW_TEXT = "review text"


class IssueVersion(Frozen):
    """The text of an issue at one moment."""

    title: str
    body: str
    at: datetime | None = None
    """When the issue was last updated, by GitHub's clock."""


class StopReason(StrEnum):
    """Why a run is stopped. All reasons but the command are checked again before it stops."""

    COMMAND = "command"
    UNLABELED = "unlabeled"
    CLOSED = "closed"
    GONE = "gone"
    NO_ACCESS = "no access"
    """The App was uninstalled or suspended, or the repository removed, deleted or archived."""
    DISABLED = "disabled"
    """The opt-out label was added to the issue or to our pull request."""


class Stop(Frozen):
    by: Login
    why: StopReason
    at: datetime | None = None
    """When, by GitHub's clock. Also ends waiting requests that are older; None: ends none."""
    label: str = ""
    """For DISABLED: the opt-out label, as spelled on the issue."""


class IssueSnapshot(Frozen):
    """The state and the labels of an issue that may have lost its reason for a run."""

    repo: RepoRef
    issue: int
    closed: bool
    labels: tuple[str, ...] = ()


class SkippedComments(Frozen):
    """Which parts of an issue the model does not read."""

    untrusted: int = 0
    """How many comments of untrusted people were left out."""
    late: int = 0
    """How many comments were left out because they changed after the request."""
    edited: bool = False
    """The issue itself changed after the request; the model reads the earlier text."""
    pictures: int = 0
    files: int = 0
    """How many attached files of the issue were not read."""
    attached: tuple[str, ...] = ()
    """Those that were read, with their size. Untrusted."""
    hidden: int = 0
    """How many passages are on no page, or where no reader looks: they were not read."""
    hidden_characters: int = 0
    declared: int = 0
    """How many declarations of the issue's form, such as "I have searched", were not read."""
    folded: int = 0
    """How many characters are folded on the page; these were read."""


class Run(Frozen):
    """The record of one run; kept for 30 days after its end."""

    id: RunId
    repo: RepoRef
    issue: int
    asked_by: Login
    delivery: str
    """X-GitHub-Delivery of the event that started it, or another id of the request."""
    mode: Mode = Mode.FIX
    pulls: tuple[int, ...] = ()
    """For JUDGE: the pull requests to compare."""
    candidate: int = 0
    """The rank of the edit of `published_run` that it uses; 1 is A, the chosen one, 2 is B.
    0: it uses none. For USE, and for FIX and AUTO after a run whose edit GitHub did not take."""
    anyway: bool = False
    """For USE: the edit is wanted even if it fails the reproduction test. Else: the run starts from
    scratch, even if there is an edit that GitHub did not take."""
    more: int = 0
    """For FIX: it takes over the samples of `published_run` and draws until it has so many; 0: it
    starts from scratch."""
    published_run: RunId = RunId("")
    """The `edits_run` of the issue's latest earlier run; empty: none."""
    asked_on: int = 0
    """Our pull request where it was asked for, and where its result is told as well; 0: the
    issue."""
    label: str = ""
    """The label that started it; its removal stops the run. Empty: a comment started it."""
    asked_at: datetime | None = None
    """When it was requested, by GitHub's clock. Later texts of strangers are not read."""
    confirmed: bool = False
    """The requester knows that somebody else seems to work on the issue."""
    status: RunStatus = RunStatus.QUEUED
    created_at: datetime = Field(default_factory=now)
    started_at: datetime | None = None
    finished_at: datetime | None = None
    starts: int = 0
    """How many workers have begun it, including the current one."""
    deaths: int = 0
    """How often a worker died in the present step without handing the run back."""
    fruitless_starts: int = 0
    """How many starts in a row broke off before they saved a new checkpoint."""
    checkpoints: int = 0
    """How many checkpoints existed when the latest worker began."""
    not_before: datetime | None = None
    """No worker takes it up earlier."""
    waiting_for: Failure | None = None
    """Why it was last put back into the queue."""
    waiting_since: datetime | None = None
    """The time since which it has made no progress for that reason."""
    base_commit: CommitSha = CommitSha("")
    """Full SHA the run works on, fixed by the first worker."""
    branch: str = ""
    """The branch that it pushed to or was about to push to; empty: none yet."""
    head_commit: CommitSha = CommitSha("")
    comment_id: int | None = None
    """The id of its status comment. A deleted comment is not written again before the end."""
    queue_position: int = 0
    """Its place in the queue as the status comment shows it; 0: shows none."""
    page_url: str = ""
    """The URL of its page; empty when there is none."""
    pull_request: int | None = None
    pull_request_url: str = ""
    skipped: SkippedComments = SkippedComments()
    begun_anew: bool = False
    """Another version of Capuchin saved what was done before, in a format that is not read."""
    end_reported: bool = False
    """The final comment is written: the run cannot be stopped any more, only cleaned up."""
    end_status: RunStatus | None = None
    """With `end_reported`: the final status that the comment reports."""
    stop: Stop | None = None
    """Set once the run is being stopped: only the report of that is left to do."""
    no_fix: NoFixReason | None = None
    """For NO_FIX."""
    failure: Failure | None = None
    swap_problem: SwapProblem | None = None
    """For USE that was refused."""
    facts: FailureFacts = NO_FACTS
    dollars: float = 0.0
    confidence: float | None = None
    language: str = ""
    """With a confidence that was not fitted on edits in this language."""

    @property
    def is_announced(self) -> bool:
        """Whether people can see the run: it has a comment, or began before."""
        return self.comment_id is not None or self.base_commit != ""

    @property
    def edits_run(self) -> RunId:
        """The issue's latest run up to this that may have edits which `use` takes: it opened a pull
        request, broke off, or ended without a fix and showed its edits. Empty for none."""
        if self.mode in (Mode.FIX, Mode.AUTO):
            without = ("empty repository", "no source files", "no relevant files", "no edit")
            shown = self.status is RunStatus.NO_FIX and self.no_fix not in without
            opened = shown or self.pull_request is not None
        else:  # only a `use` after a run without a fix has a branch of its own
            opened = self.mode is Mode.USE and self.pull_request is not None and self.branch != ""
        return self.id if opened or self.is_unpublished else self.published_run

    @property
    def is_unpublished(self) -> bool:
        """Whether it broke off after it began: what it has found by then, people have not got."""
        broke_off = (RunStatus.FAILED, RunStatus.STOPPED, RunStatus.REFUSED)
        answers = self.mode in (Mode.FIX, Mode.AUTO, Mode.USE)
        waits = self.failure is Failure.PUBLISH_REFUSED  # also for a person's word
        return (
            answers and (self.status in broke_off or waits)
            and self.pull_request is None and self.base_commit != ""
        )  # fmt: skip


class QueuePosition(Frozen):
    """The place, from 1, in the queue of a run that no worker has begun."""

    position: int
    expected_seconds: tuple[float, float] | None = None
    """The shortest and the longest wait to expect, from the latest runs; None: unknown."""


class QuotaLimit(NamedTuple):
    """How many runs one person may request per day."""

    runs: int
