"""What an event, a label or a command asks the bot to do."""

import re
from datetime import datetime
from enum import StrEnum
from typing import Final, Literal, NamedTuple

from bot.data.run import (
    CommentLocation,
    IssueSnapshot,
    IssueVersion,
    Login,
    Mode,
    RepoRef,
    RunId,
    StopReason,
)
from pipeline.data.types import CommitSha
from sandbox.frozen import Frozen


class Command(Frozen):
    """A command that a person wrote. All of it is untrusted text."""

    verb: str
    """Lower case; empty when nothing followed our name."""
    words: tuple[str, ...] = ()
    """What follows the verb on its line."""
    by_slash: bool = True
    """`/capuchin`, which is meant for nobody else; not `@capuchin`, which may be talk."""
    begins_line: bool = True
    """Else it stands in mid-line and is not carried out."""
    others: tuple[str, ...] = ()
    """The verbs of further commands in the same comment, which are not carried out."""

    def says_same(self, other: "Command") -> bool:
        """Whether both ask for the same, in whatever words."""
        mine, theirs = (
            (one.verb, one.begins_line, one.anyway, one.numbers, one.dollars, one.letter)
            for one in (self, other)
        )
        return mine == theirs

    @property
    def anyway(self) -> bool:
        """The author knows that somebody else seems to work on the issue."""
        meant = {"anyway", "--anyway", "--force", "force"}
        return any(word.lower() in meant for word in self.words)

    @property
    def numbers(self) -> tuple[int, ...]:
        """The numbers among the words, `#` or not, such as those of pull requests."""
        found = (re.fullmatch(r"#?(\d{1,9})[.,;]?", word) for word in self.words)
        return tuple(int(one[1]) for one in found if one)

    @property
    def dollars(self) -> float | None:
        """The one amount of money among the words, such as `$15` or `12.50`; else None."""
        found = (re.fullmatch(r"\$?(\d{1,6}(?:\.\d{1,2})?)[.,;]?", word) for word in self.words)
        amounts = [float(one[1]) for one in found if one]
        return amounts[0] if len(amounts) == 1 else None

    @property
    def letter(self) -> str | None:
        """The one word of one or two letters, as edits are named, in upper case; else None."""
        found = (re.fullmatch(r"`?([A-Za-z]{1,2})`?[.,;]?", word) for word in self.words)
        names = [one[1].upper() for one in found if one]
        return names[0] if len(names) == 1 else None


class Delay(StrEnum):
    IMMEDIATE = "now"
    DEBOUNCED = "quiet"
    """After people had a moment to write more."""
    RATE_LIMITED = "seldom"
    """Not more often than the operator allows."""


class _Request(Frozen):
    repo: RepoRef
    delivery: str


class RunRequest(_Request):
    """A run that a label or an assignment asks for."""

    issue: int
    asked_by: Login
    mode: Mode = Mode.FIX
    label: str = ""
    version: IssueVersion | None = None
    found_at: datetime | None = None
    """When the label was put on that the sweep has found, which knows no version."""

    @property
    def id(self) -> str:
        """The same for every report of the label."""
        if self.at is None:
            return f"start-{self.delivery}"
        where = f"{self.repo.id}-{self.issue}-{self.label}".lower()
        return f"start-{where}-{self.at.timestamp():.0f}"

    @property
    def at(self) -> datetime | None:
        """When the label was put on, by GitHub's clock."""
        return self.version.at if self.version else self.found_at


class StopRequest(_Request):
    """The end of the issue's run, if it has one. A hint: checked again before the run ends."""

    issue: int
    by: Login
    why: StopReason
    label: str = ""
    """For UNLABELED: what was taken off. For DISABLED: what was put on."""
    at: datetime | None = None


class CommandRequest(_Request):
    """A command in a comment. The worker that runs it asks GitHub whether the author may."""

    issue: int
    location: CommentLocation
    comment: int
    """Its id, or that of the review."""
    node_id: str = ""
    """The id in GraphQL of a review, to which REST cannot react."""
    by: Login
    """Who wrote it, or edited it last."""
    at: datetime
    """When, by GitHub's clock."""
    command: Command
    replaces: bool = False
    """An edit put it in the place of another command, which had its answer."""
    version: IssueVersion | None = None

    @property
    def id(self) -> str:
        """The same for every delivery of the comment and for the sweep."""
        kinds = {CommentLocation.REVIEW: "review-comment", CommentLocation.REVIEW_TEXT: "review"}
        named = f"{kinds.get(self.location, 'comment')}-{self.comment}"
        return f"{named}-{self.at.timestamp():.0f}" if self.replaces else named


class IssueRemark(_Request):
    """A comment on an issue that is no command: a run of the issue hears it."""

    issue: int
    remark: int
    by: Login
    at: datetime

    @property
    def id(self) -> str:
        """The same for every delivery of the comment and for the sweep."""
        return f"remark-{self.remark}"


class ConfigCheckRequest(_Request):
    pull: int
    head: CommitSha
    again: bool = False
    with_evidence: bool = False
    """Also the check of the reproduction test, if the pull request is ours."""
    others: tuple[int, ...] = ()

    @property
    def id(self) -> str:
        """The same for every delivery about this head; another each time that somebody asks
        again."""
        named = f"config-{self.repo.id}-{self.pull}-{self.head}"
        return f"{named}-again-{self.delivery}" if self.again else named


class PullUpdate(_Request):
    """Something has happened that our pull requests may have to follow."""

    target: Literal["pull", "issue", "branch", "base"]
    """One pull request, the one for an issue, those from some branches, or those into some."""
    number: int = 0
    others: tuple[int, ...] = ()
    branches: tuple[str, ...] = ()
    """For `base`, none means any."""
    delay: Delay = Delay.IMMEDIATE
    again: bool = False
    """Verify the evidence again, even if it is up to date."""
    by: Login = Login("")
    comment: int = 0
    """The comment on a line that asks for it; 0: something else does."""
    review: str = ""
    """The id in GraphQL of the review that asks for changes."""

    @property
    def id(self) -> str:
        """The same however often its event is delivered."""
        return f"follow-up-{self.target}-{self.delivery}"


class SetUpRequest(_Request):
    """Repositories that the App may work in from now on.

    `all` becomes one `label` for each, the active ones first; a `label` is followed by the `rest`,
    which so comes after the labels of all others.
    """

    others: tuple[RepoRef, ...] = ()
    part: Literal["all", "label", "rest"] = "label"
    again: str = ""
    """The delivery that asks for it once more; empty: once will do."""

    @property
    def id(self) -> str:
        """The same however often its event is delivered, and for the sweep."""
        return f"set-up-{self.part}-{self.repo.id}-{self.again}"

    @property
    def writes(self) -> int:
        return {"all": 0, "label": 1, "rest": 4}[self.part]


QueuedKind = (
    CommandRequest | IssueRemark | RunRequest | ConfigCheckRequest | PullUpdate | SetUpRequest
)
AccessKind = Literal["given", "accepted", "taken", "moved"]
"""`accepted`: the owner granted what the App has asked for since it was installed."""


class AccessChange(Frozen):
    """GitHub gave the App access to repositories or took it, or a repository moved.

    A hint as far as access was taken: checked again before a run ends.
    """

    kind: AccessKind
    repos: tuple[RepoRef, ...]
    """With their names from now on."""
    installation: int
    of_all: bool = False
    """It concerns all of the installation, whether or not they are listed."""
    by: Login
    delivery: str

    def concerns(self, repo: RepoRef) -> bool:
        whole = self.of_all and repo.installation == self.installation
        return whole or any(one.id == repo.id for one in self.repos)


AnyRequest = (
    AccessChange
    | RunRequest
    | StopRequest
    | CommandRequest
    | IssueRemark
    | ConfigCheckRequest
    | PullUpdate
)


class StartOutcome(StrEnum):
    CREATED = "created"
    RUNNING = "running"
    """The issue has an active run already; it is the answer to this request too."""
    REPEATED = "repeated"
    """This very delivery was answered before."""


class StartResult(NamedTuple):
    outcome: StartOutcome
    run_id: RunId


SWEEP_PREFIX: Final = "sweep-"
"""How the delivery of a run begins that was found without a webhook."""
NO_LABEL_EVENT: Final = ("",) * 5


class LabelEvent(NamedTuple):
    """A label on an issue, or "" for an assignment, as a webhook or the sweep reports it.

    Two webhooks are two of them, unless they have the same delivery. The sweep knows no delivery:
    what it finds is the same as what was reported up to that second, and the other way round.
    """

    label: str
    at: int
    """The beginning, in seconds since the epoch by GitHub's clock."""
    from_sweep: bool

    @classmethod
    def from_request(cls, request: RunRequest) -> "LabelEvent | None":
        """None where nobody knows since when."""
        if request.at is None:
            return None
        swept = request.delivery.startswith(SWEEP_PREFIX)
        return cls(request.label.casefold(), int(request.at.timestamp()), swept)

    @property
    def hash_field(self) -> str:
        return f"{'swept' if self.from_sweep else 'heard'} {self.label}"

    @property
    def until(self) -> int:
        """A webhook may date the moment a second later than the sweep does."""
        return self.at + self.from_sweep

    @property
    def covering_fields(self) -> tuple[str, str]:
        """What says that it is dealt with."""
        return ("heard " if self.from_sweep else "swept ") + self.label, f"swept {self.label}"

    @property
    def script_args(self) -> tuple[str, int, int, str, str]:
        return self.hash_field, self.at, self.until, *self.covering_fields


MissedEvent = (
    RunRequest
    | IssueSnapshot
    | CommandRequest
    | IssueRemark
    | ConfigCheckRequest
    | PullUpdate
    | SetUpRequest
)
"""What a look at GitHub finds that no webhook told."""
