"""GitHub's nouns: accounts, repositories, issues, pull requests, checks, and recorded requests.

Git's content is not here: it is read from the bare repository each time.
"""

from __future__ import annotations

import hashlib
import secrets
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, Literal

from capuchin_demo.hub.git_repository import GitRepo

DEFAULT_LABELS = ("bug", "documentation", "duplicate", "enhancement", "question", "wontfix")
ROLES = ("none", "read", "triage", "write", "maintain", "admin")
"""GitHub's repository roles, weakest first."""


def now() -> datetime:
    """The current time in whole seconds, as GitHub shows it."""
    return datetime.now(UTC).replace(microsecond=0)


def stamp(moment: datetime) -> str:
    """A time in GitHub's format: no fraction, `Z`."""
    return moment.strftime("%Y-%m-%dT%H:%M:%SZ")


@dataclass
class Site:
    """The hub's address, which is known once it is served, and what its accounts have in common."""

    url: str
    verified: set[str] = field(default_factory=set[str], repr=False)
    """The commits that GitHub itself or a known key has signed."""


@dataclass(eq=False)
class User:
    """An account. Apps write as a `Bot`."""

    site: Site = field(repr=False)
    id: int
    login: str
    type: Literal["User", "Organization", "Bot"] = "User"
    created_at: datetime = field(default_factory=now)


@dataclass(eq=False)
class Label:
    """A label of a repository."""

    id: int
    name: str
    color: str = "ededed"
    description: str | None = None


@dataclass(eq=False)
class Reaction:
    """One user's reaction to an issue or a comment."""

    id: int
    content: str
    user: User
    created_at: datetime = field(default_factory=now)


@dataclass(eq=False)
class Comment:
    """A comment on an issue or in a pull request's conversation."""

    id: int
    issue: Issue = field(repr=False)
    author: User
    body: str
    reactions: list[Reaction] = field(default_factory=list[Reaction])
    created_at: datetime = field(default_factory=now)
    updated_at: datetime = field(default_factory=now)
    editor: User | None = None


@dataclass(frozen=True)
class TimelineEntry:
    """One line of an issue's timeline: what `actor` did (`text` is plain), or a comment."""

    actor: User
    text: str
    at: datetime
    comment: Comment | None = None
    event: str = ""
    """The name of the event in the REST API."""
    label: str = ""
    """The label that was added or removed."""
    commit: str = ""
    """The commit of a merge."""


@dataclass(eq=False)
class Issue:
    """An issue. Pull requests are issues too, and share the numbers."""

    id: int
    number: int
    repo: Repo = field(repr=False)
    title: str
    body: str | None
    author: User
    state: Literal["open", "closed"] = "open"
    state_reason: str | None = None
    locked: bool = False
    labels: list[str] = field(default_factory=list[str])
    assignees: list[User] = field(default_factory=list[User])
    comments: list[Comment] = field(default_factory=list[Comment])
    reactions: list[Reaction] = field(default_factory=list[Reaction])
    timeline: list[TimelineEntry] = field(default_factory=list[TimelineEntry])
    closed_by: User | None = None
    closed_at: datetime | None = None
    created_at: datetime = field(default_factory=now)
    updated_at: datetime = field(default_factory=now)

    def add_to_timeline(
        self,
        actor: User,
        text: str,
        comment: Comment | None = None,
        *,
        event: str = "",
        label: str = "",
        commit: str = "",
    ) -> None:
        """Add an entry to the timeline and update `updated_at`."""
        self.updated_at = now()
        self.timeline.append(
            TimelineEntry(actor, text, self.updated_at, comment, event, label, commit)
        )

    @property
    def html_path(self) -> str:
        """The path of its page on the hub."""
        kind = "pull" if isinstance(self, Pull) else "issues"
        return f"{self.repo.full_name}/{kind}/{self.number}"

    @property
    def page_url(self) -> str:
        return f"{self.repo.owner.site.url}/{self.html_path}"


@dataclass(eq=False)
class Review:
    """A review of a pull request."""

    id: int
    author: User
    body: str
    state: str
    commit_id: str
    submitted_at: datetime | None = None
    comments: list[ReviewComment] = field(default_factory=list["ReviewComment"])
    reactions: list[Reaction] = field(default_factory=list[Reaction])


@dataclass(eq=False)
class ReviewComment:
    """A comment on a line of a pull request's diff."""

    id: int
    review: Review = field(repr=False)
    path: str
    line: int
    side: str
    body: str
    diff_hunk: str
    in_reply_to: int | None = None
    """The first comment of its thread; None for the first comment itself."""
    created_at: datetime = field(default_factory=now)
    reactions: list[Reaction] = field(default_factory=list[Reaction])


@dataclass(eq=False)
class Pull(Issue):
    """A pull request within one repository or from a fork; the SHAs are its branches' heads."""

    head_ref: str = ""
    head_sha: str = ""
    base_ref: str = ""
    base_sha: str = ""
    fork: Repo | None = None
    draft: bool = False
    maintainer_can_modify: bool = False
    merged_at: datetime | None = None
    merged_by: User | None = None
    merge_commit_sha: str | None = None
    requested_reviewers: list[User] = field(default_factory=list[User])
    reviews: list[Review] = field(default_factory=list[Review])


@dataclass(eq=False)
class CheckSuite:
    """All check runs of one App on one commit."""

    id: int
    head_sha: str
    app: str = ""
    """The slug of the App; empty for the hub's own App."""
    created_at: datetime = field(default_factory=now)
    updated_at: datetime = field(default_factory=now)


@dataclass(eq=False)
class CommitStatus:
    """The status of one commit from an external service; the latest of each context counts."""

    id: int
    sha: str
    context: str
    state: Literal["error", "failure", "pending", "success"]
    description: str | None
    author: User
    created_at: datetime = field(default_factory=now)


@dataclass(eq=False)
class CheckRun:
    """One check on one commit."""

    id: int
    suite: CheckSuite = field(repr=False)
    name: str
    head_sha: str
    status: str = "queued"
    conclusion: str | None = None
    details_url: str | None = None
    external_id: str = ""
    title: str | None = None
    summary: str | None = None
    text: str | None = None
    annotations: list[dict[str, Any]] = field(default_factory=list[dict[str, Any]])
    started_at: datetime | None = None
    completed_at: datetime | None = None
    log: str = ""
    """Of a job of GitHub Actions, whose check run this is."""


@dataclass(eq=False)
class AppInstallation:
    """The installation of the App on one account, with the repositories that the owner selected."""

    id: int
    account: User
    permissions: dict[str, str]
    events: tuple[str, ...]
    """Those of the App when its owner last accepted its permissions."""
    repos: list[Repo] = field(default_factory=list["Repo"], repr=False)
    suspended_at: datetime | None = None
    created_at: datetime = field(default_factory=now)


@dataclass(eq=False)
class Repo:
    """A repository: its bare git repository and all other data that GitHub stores."""

    id: int
    owner: User
    name: str
    git: GitRepo
    default_branch: str
    private: bool = False
    description: str | None = None
    installation: AppInstallation | None = None
    roles: dict[str, str] = field(default_factory=dict[str, str])
    labels: dict[str, Label] = field(default_factory=dict[str, Label])
    issues: dict[int, Issue] = field(default_factory=dict[int, Issue])
    check_runs: list[CheckRun] = field(default_factory=list[CheckRun])
    suites: list[CheckSuite] = field(default_factory=list[CheckSuite])
    makes_suites: bool = True
    """Whether a push makes an empty check suite for the App."""
    statuses: list[CommitStatus] = field(default_factory=list[CommitStatus])
    last_number: int = 0
    deleted_numbers: set[int] = field(default_factory=set[int])
    archived: bool = False
    large_files: dict[str, bytes] = field(default_factory=dict[str, bytes])
    """Of Git LFS, by SHA-256."""
    created_at: datetime = field(default_factory=now)
    pushed_at: datetime = field(default_factory=now)

    @property
    def full_name(self) -> str:
        return f"{self.owner.login}/{self.name}"

    @property
    def page_url(self) -> str:
        return f"{self.owner.site.url}/{self.full_name}"

    @property
    def api_url(self) -> str:
        """The address of the repository in the REST API."""
        return f"{self.owner.site.url}/api/v3/repos/{self.full_name}"

    @property
    def pulls(self) -> list[Pull]:
        """All pull requests, oldest first."""
        return [issue for issue in self.issues.values() if isinstance(issue, Pull)]

    def grant(self, login: str, role: str) -> None:
        """Give a person a role, one of `ROLES`."""
        self.roles[login.lower()] = role

    def role_of(self, user: User) -> str:
        """A person's role: the owner is admin, and strangers can read public repositories."""
        if user is self.owner:
            return "admin"
        return self.roles.get(user.login.lower(), "none" if self.private else "read")

    def list_branches(self) -> list[str]:
        return sorted(self.git.list_refs("refs/heads/"))

    def read_file(self, ref: str, path: str) -> str | None:
        """The text of a file on a branch, tag or commit; None if it does not exist."""
        data = self.git.read_file(ref, path)
        return None if data is None else data.decode("utf-8", "replace")

    def list_commits(self, ref: str) -> list[str]:
        """The subject lines reachable from `ref`, newest first."""
        return [commit.message.split("\n", 1)[0] for commit in self.git.log(ref)]

    def find_comment(self, number: int) -> Comment | None:
        """The comment with this id on any issue."""
        every = (comment for issue in self.issues.values() for comment in issue.comments)
        return next((comment for comment in every if comment.id == number), None)


@dataclass(frozen=True)
class Visitor:
    """The person as whom everybody acts who opens the hub's pages."""

    login: str
    example: str = ""
    """The text that the review form starts with."""
    token: str = field(default_factory=lambda: secrets.token_urlsafe(16))
    """Is in every form, so that no other website can send one."""


def node_id(kind: str, number: int) -> str:
    """An opaque id in GitHub's style; equal arguments yield equal ids."""
    return f"{kind}_{hashlib.sha256(f'{kind}{number}'.encode()).hexdigest()[:16]}"
