"""The fields of GitHub's responses that we read."""

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Annotated, Any, Final, NamedTuple, cast

from pydantic import AliasPath, BaseModel, BeforeValidator, ConfigDict, Field

from bot.data.run import Login
from pipeline.data.types import CommitSha
from sandbox.frozen import Frozen

GHOST: Final = Login("ghost")
"""Who GitHub shows as the author of what a deleted account wrote."""


class Fact(BaseModel):
    """Ignores unknown fields: GitHub adds fields often, and some may be null."""

    model_config = ConfigDict(frozen=True, extra="ignore", populate_by_name=True)


def _each_value(key: str) -> BeforeValidator:
    """Reads a list of objects as a tuple with one text of each."""

    def read(value: Any) -> Any:
        listed = cast("list[Any]", value or [])
        return tuple(
            str(cast("dict[str, Any]", one).get(key)) if isinstance(one, dict) else one
            for one in listed
        )

    return BeforeValidator(read)


class IssueFacts(Fact):
    number: int
    node_id: str = ""
    title: str
    body: str | None = None
    state: str
    author: Login = Field(default=GHOST, validation_alias=AliasPath("user", "login"))
    html_url: str = ""
    comments: int = 0
    pull_request: dict[str, Any] | None = None
    locked: bool = False
    labels: Annotated[tuple[str, ...], _each_value("name")] = ()
    assignees: Annotated[tuple[Login, ...], _each_value("login")] = ()
    closer: Login = Field(default=GHOST, validation_alias=AliasPath("closed_by", "login"))
    updated_at: datetime | None = None

    def has_label(self, label: str) -> bool:
        return label.casefold() in {name.casefold() for name in self.labels}


class AppFacts(Fact):
    """The App as GitHub knows it: what its owner may have changed since it was made."""

    slug: str
    permissions: dict[str, str] = Field(default_factory=dict[str, str])
    events: tuple[str, ...] = ()


class InstallationFacts(Fact):
    """One installation of the App: what its owner has accepted."""

    id: int
    account: Login = Field(default=GHOST, validation_alias=AliasPath("account", "login"))
    html_url: str = ""
    """The page on which its owner changes it, and accepts new permissions."""
    permissions: dict[str, str] = Field(default_factory=dict[str, str])
    events: tuple[str, ...] = ()
    suspended_at: datetime | None = None


class DeliveryFacts(Fact):
    event: str
    status: str
    """GitHub's own words, such as `OK` or `timed out`."""
    status_code: int


class EditFacts(Fact):
    """When the text and title of an issue were last edited, from GraphQL's `Issue`."""

    body: datetime | None = Field(default=None, validation_alias="lastEditedAt")
    title: datetime | None = Field(
        default=None, validation_alias=AliasPath("timelineItems", "nodes", 0, "createdAt")
    )


class Cursor(Fact):
    """The position up to which the changes of a repository have been processed."""

    since: datetime
    etag: str = ""
    """The ETag of the last response to the same request."""
    comments_since: datetime | None = None
    """The same for comments; None if they were never read."""
    comments_etag: str = ""
    lines_since: datetime | None = None
    """The same for comments on lines of pull requests."""
    lines_etag: str = ""


class LinkedPull(Fact):
    number: int
    title: str = ""
    body: str | None = None
    state: str
    author: Login = Field(default=GHOST, validation_alias=AliasPath("user", "login"))
    repository: str = Field(default="", validation_alias=AliasPath("repository", "full_name"))
    """`owner/name`; empty if GitHub omits it."""
    html_url: str = ""
    pull_request: dict[str, Any] | None = None
    """None if the mention is in an issue."""

    @property
    def is_open(self) -> bool:
        return self.state == "open"


class TimelineFacts(Fact):
    """An entry of an issue's timeline; only "cross-referenced" ones have a `source`."""

    event: str = ""
    source: LinkedPull | None = Field(default=None, validation_alias=AliasPath("source", "issue"))


class CommentFacts(Fact):
    id: int
    node_id: str = ""
    body: str | None = None
    author: Login = Field(default=GHOST, validation_alias=AliasPath("user", "login"))
    author_type: str = Field(default="User", validation_alias=AliasPath("user", "type"))
    created_at: datetime | None = None
    updated_at: datetime
    issue_url: str = ""
    pull_request_url: str = ""
    html_url: str = ""

    @property
    def issue(self) -> int:
        """The number of its issue or pull request; 0 if unknown."""
        number = (self.pull_request_url or self.issue_url).rpartition("/")[2]
        return int(number) if number.isdecimal() else 0

    @property
    def is_on_pull(self) -> bool:
        return self.html_url.partition("#")[0].split("/")[-2:-1] == ["pull"]

    @property
    def is_on_line(self) -> bool:
        return self.pull_request_url != ""

    @property
    def is_edited(self) -> bool:
        return self.created_at is None or self.updated_at > self.created_at


class EditorFacts(Fact):
    login: Login | None = Field(default=None, validation_alias=AliasPath("editor", "login"))


class RepositoryFacts(Fact):
    id: int
    full_name: str
    default_branch: str
    archived: bool = False
    size: int = 0

    @property
    def owner(self) -> str:
        return self.full_name.partition("/")[0]

    @property
    def name(self) -> str:
        return self.full_name.partition("/")[2]


class PullRequestFacts(Fact):
    number: int
    html_url: str
    state: str
    draft: bool = False
    title: str = ""
    body: str | None = None
    author: Login = Field(default=GHOST, validation_alias=AliasPath("user", "login"))
    merged_at: datetime | None = None
    base_branch: str = Field(default="", validation_alias=AliasPath("base", "ref"))
    head_branch: str = Field(validation_alias=AliasPath("head", "ref"))
    head_sha: CommitSha = Field(validation_alias=AliasPath("head", "sha"))
    node_id: str = ""
    labels: Annotated[tuple[str, ...], _each_value("name")] = ()
    comments: int = 0
    """In the conversation; only where the pull request was read by itself."""
    created_at: datetime | None = None
    updated_at: datetime | None = None


class CommitFacts(Fact):
    sha: CommitSha
    message: str = Field(default="", validation_alias=AliasPath("commit", "message"))
    account: Login = Field(default=GHOST, validation_alias=AliasPath("author", "login"))
    author_type: str = Field(default="User", validation_alias=AliasPath("author", "type"))
    """`User` also if GitHub knows no account with that address."""
    author_email: str = Field(default="", validation_alias=AliasPath("commit", "author", "email"))
    committed_at: datetime = Field(validation_alias=AliasPath("commit", "committer", "date"))
    parents: Annotated[tuple[CommitSha, ...], _each_value("sha")] = ()


class ReviewFacts(Fact):
    """A review as a whole; its comments on lines are `LineCommentFacts`."""

    id: int
    node_id: str = ""
    submitted_at: datetime | None = None
    body: str | None = None
    state: str
    author: Login = Field(default=GHOST, validation_alias=AliasPath("user", "login"))
    author_type: str = Field(default="User", validation_alias=AliasPath("user", "type"))


class LineCommentFacts(Fact):
    id: int
    body: str | None = None
    path: str
    line: int | None = None
    in_reply_to: int | None = Field(default=None, validation_alias="in_reply_to_id")
    author: Login = Field(default=GHOST, validation_alias=AliasPath("user", "login"))
    author_type: str = Field(default="User", validation_alias=AliasPath("user", "type"))

    @property
    def thread(self) -> int:
        return self.in_reply_to or self.id


class CheckRunFacts(Fact):
    id: int
    name: str
    external_id: str | None = None
    annotations: int = Field(default=0, validation_alias=AliasPath("output", "annotations_count"))
    status: str
    conclusion: str | None = None
    html_url: str | None = None
    app: str = Field(default="", validation_alias=AliasPath("app", "slug"))
    title: str | None = Field(default=None, validation_alias=AliasPath("output", "title"))
    summary: str | None = Field(default=None, validation_alias=AliasPath("output", "summary"))
    text: str | None = Field(default=None, validation_alias=AliasPath("output", "text"))


class CheckSuiteFacts(Fact):
    status: str
    conclusion: str | None = None
    app: str = Field(default="", validation_alias=AliasPath("app", "slug"))
    runs: int = Field(default=0, validation_alias="latest_check_runs_count")
    created_at: datetime | None = None

    def has_ended(self, now: datetime, *, grace: timedelta) -> bool:
        """GitHub queues a suite for each App that may write checks; some never use theirs."""
        unused = not self.runs and self.created_at and now - self.created_at >= grace
        return self.status == "completed" or bool(unused)


class BranchFacts(Fact):
    required: tuple[str, ...] = Field(
        default=(), validation_alias=AliasPath("protection", "required_status_checks", "contexts")
    )
    """What the branch's own protection requires; rulesets may require more."""


class _Required(Fact):
    context: str


class RuleFacts(Fact):
    checks: tuple[_Required, ...] = Field(
        default=(), validation_alias=AliasPath("parameters", "required_status_checks")
    )


class StatusFacts(Fact):
    context: str
    state: str
    """`error`, `failure`, `pending` or `success`."""
    description: str | None = None


class AnnotationFacts(Fact):
    path: str = ""
    start_line: int = 0
    message: str | None = None


class FileFacts(Fact):
    type: str
    size: int = 0
    encoding: str = ""
    content: str = ""


class LabelEventFacts(Fact):
    """An entry of an issue's history; `label` and who put it on are read of "labeled" alone."""

    event: str
    commit: CommitSha | None = Field(default=None, validation_alias="commit_id")
    """The commit on the base branch that "merged" made."""
    label: str = Field(default="", validation_alias=AliasPath("label", "name"))
    actor: Login | None = Field(default=None, validation_alias=AliasPath("actor", "login"))
    created_at: datetime | None = None


class ReactionFacts(Fact):
    id: int
    content: str
    author: Login = Field(default=GHOST, validation_alias=AliasPath("user", "login"))


class ExistingWork(Frozen):
    locked: bool = False
    assignees: tuple[str, ...] = ()
    """Logins, without the requester and our own account."""
    pulls: tuple[LinkedPull, ...] = ()
    """Open pull requests of others that say that they fix the issue."""
    ours: tuple[LinkedPull, ...] = ()
    branches: tuple[str, ...] = ()
    """Named after the issue. Untrusted text."""

    def __bool__(self) -> bool:
        return bool(self.locked or self.assignees or self.pulls or self.ours or self.branches)


class CoAuthor(NamedTuple):
    login: Login
    email: str


@dataclass(frozen=True)
class Identity:
    """The App and its account on GitHub, `name[bot]`."""

    app: int
    login: Login
    email: str
    """The noreply address that GitHub attributes to the App."""

    @property
    def slug(self) -> str:
        """The App's name, as in `@name`."""
        return self.login.removesuffix("[bot]")
