"""Everything that the hub knows, which its rooms share; `events.emit` tells the App of changes."""

from __future__ import annotations

import re
import secrets
from collections.abc import Callable, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Literal
from urllib.parse import parse_qsl

from starlette.requests import Request

from capuchin_demo.hub.faults import Faults, RateLimit
from capuchin_demo.hub.git_compare import read_pull_facts
from capuchin_demo.hub.git_repository import GitRepo, Signature, run_git
from capuchin_demo.hub.issue_json import PullFacts
from capuchin_demo.hub.repository_json import DEFAULT_LABELS
from capuchin_demo.hub.state import (
    AppInstallation,
    Exchange,
    Label,
    Pull,
    Repo,
    Site,
    User,
    Visitor,
    now,
)
from capuchin_demo.hub.tokens import AppIdentity, Token, Tokens
from capuchin_demo.hub.webhooks import Webhooks


class State:
    """The accounts, repositories, installations, tokens, webhooks and limits of one hub.

    Names are found without regard to case, as on GitHub. The folders of git repositories under
    `root` are named by number. `requests` lists every REST and git request in order; `unexpected`
    lists requests that the hub does not implement, and a test should find it empty.
    """

    def __init__(self, root: Path, webhook_secret: str, app: AppIdentity) -> None:
        self.root = root.resolve()
        self.site = Site("http://localhub.invalid")
        self.users: dict[str, User] = {}
        self.repos: dict[str, Repo] = {}
        self.moved: dict[str, Repo] = {}
        """By names that repositories had before; requests are redirected from there."""
        self.installations: dict[int, AppInstallation] = {}
        self.faults = Faults()
        self.limit = RateLimit()
        self.attachments: dict[str, bytes] = {}
        """What people attached to issues, by path."""
        self.attachment_jwt = secrets.token_urlsafe(16)
        """Signs the addresses of pictures."""
        self.new_apps: dict[str, tuple[AppIdentity, str]] = {}
        """By code: each new App with its webhook secret, until its keys are fetched."""
        self.app_owners: list[str] = []
        """The organisation of each new App; empty for a person."""
        self.requests: list[Exchange] = []
        self.unexpected: list[str] = []
        self.private_mode = True
        """True like an Enterprise Server: every read needs a token. False like github.com."""
        self.visitor: Visitor | None = None
        """Who acts by the forms of the pages; None: the pages have none."""
        self._listeners: list[Callable[[Exchange], None]] = []
        self._pull_facts: dict[tuple[int, str, str], PullFacts] = {}
        self._last_id = 1000
        self.switch_app(app, webhook_secret)

    @property
    def url(self) -> str:
        """The hub's address."""
        return self.site.url

    def switch_app(self, app: AppIdentity, webhook_secret: str) -> None:
        """Replace the App of this hub: there is one at a time."""
        self.app = app
        self.tokens = Tokens(app)
        self.webhooks = Webhooks(webhook_secret, app.app_id)
        self.bot = self.users[app.bot_login.lower()] = User(
            self.site, self.next_id(), app.bot_login, "Bot"
        )

    def next_id(self) -> int:
        """A new id; ids are unique across all kinds of objects."""
        self._last_id += 1
        return self._last_id

    async def wait_until_delivered(self) -> None:
        """Wait until every webhook has a response or has failed."""
        await self.webhooks.wait_until_idle()

    # Requests

    def listen(self, listener: Callable[[Exchange], None]) -> None:
        """Call `listener` with each request from now on, after its response."""
        self._listeners.append(listener)

    def record(
        self,
        api: Literal["rest", "git", "graphql"],
        request: Request,
        token: Token | None,
        status: int,
        *,
        path: str,
        body: bytes = b"",
        response_headers: Mapping[str, str] = MappingProxyType({}),
        response: bytes = b"",
    ) -> None:
        """Record a request with its response, and show both to the listeners."""
        exchange = Exchange(
            api,
            request.method,
            path,
            tuple(parse_qsl(request.url.query, keep_blank_values=True)),
            dict(request.headers),
            body,
            status,
            dict(response_headers),
            response,
            token.actor.login if token else None,
            token.installation.id if token and token.installation else None,
        )
        self.requests.append(exchange)
        for listener in self._listeners:
            listener(exchange)

    # Accounts and repositories

    def add_app_account(self, login: str) -> User:
        """The account `NAME[bot]` of another App."""
        return self.users.setdefault(login.lower(), User(self.site, self.next_id(), login, "Bot"))

    def add_user(self, login: str, *, organization: bool = False) -> User:
        """Find the account, or create it.

        Raises:
            ValueError: the name is not valid.
        """
        known = self.users.get(login.lower())
        if known is not None:
            return known
        if not re.fullmatch(r"[A-Za-z0-9](?:[A-Za-z0-9-]{0,38})", login):
            raise ValueError(f"{login!r} is not a login: letters, digits and hyphens, at most 39")
        kind = "Organization" if organization else "User"
        account = User(self.site, self.next_id(), login, kind)
        self.users[login.lower()] = account
        return account

    def find_user(self, login: str) -> User | None:
        return self.users.get(login.lower())

    def find_repo(self, full_name: str) -> Repo | None:
        return self.repos.get(full_name.lower())

    def find_moved(self, full_name: str) -> Repo | None:
        """The repository that had this name before, unless another has it now."""
        return None if self.find_repo(full_name) else self.moved.get(full_name.lower())

    def move_repo(self, repo: Repo, owner: User, name: str) -> None:
        """Give a repository another name or owner."""
        del self.repos[repo.full_name.lower()]
        self.moved[repo.full_name.lower()] = repo
        repo.owner, repo.name = owner, name
        self.repos[repo.full_name.lower()] = repo

    def add_repo(
        self,
        full_name: str,
        files: Mapping[str, str | bytes] | None = None,
        *,
        folder: Path | None = None,
        default_branch: str = "main",
        private: bool = False,
        installed: bool = True,
        description: str | None = None,
    ) -> Repo:
        """Create a repository with one commit of `files` or of `folder`, or an empty one.

        `installed` gives the App access.

        Raises:
            ValueError: the name is not valid, or taken.
            GitCommandFailed: git rejects the branch name or a path.
        """
        owner, _, name = full_name.partition("/")
        if not re.fullmatch(r"(?!\.{1,2}$)(?!.*\.git$)[A-Za-z0-9._-]{1,100}", name):
            raise ValueError(f"{name!r} is not a repository name")
        if full_name.lower() in self.repos:
            raise ValueError(f"{full_name} exists already")
        account = self.add_user(owner)
        number = self.next_id()
        git = GitRepo.create(self.root / "git" / f"{number}.git", default_branch)
        if folder is not None:
            commit_tree(git, _write_folder(git, folder), default_branch, "Initial commit")
        elif files:
            blobs = {
                path: git.write_blob(text.encode() if isinstance(text, str) else text)
                for path, text in files.items()
            }
            tree = git.write_paths(None, {path: ("100644", sha) for path, sha in blobs.items()})
            commit_tree(git, tree, default_branch, "Initial commit")
        repo = Repo(number, account, name, git, default_branch, private, description)
        for word in DEFAULT_LABELS:
            self.add_repo_label(repo, word)
        self.repos[full_name.lower()] = repo
        if installed:
            self.add_to_installation(repo)
        return repo

    def add_repo_label(
        self, repo: Repo, name: str, color: str = "ededed", description: str | None = None
    ) -> Label:
        """Find the repository's label, or create it."""
        label = repo.labels.get(name.lower())
        if label is None:
            label = Label(self.next_id(), name, color, description)
            repo.labels[name.lower()] = label
        return label

    def pull_facts(self, pull: Pull) -> PullFacts:
        """The pull request's data from git, cached for each pair of commits."""
        key = (pull.repo.id, pull.base_sha, pull.head_sha)
        if key not in self._pull_facts:
            self._pull_facts[key] = read_pull_facts(pull)
        return self._pull_facts[key]

    # Installations and tokens

    def find_installation(self, account: User) -> AppInstallation | None:
        """The App's installation on an account; None if there is none."""
        every = self.installations.values()
        return next((one for one in every if one.account is account), None)

    def add_to_installation(self, repo: Repo) -> AppInstallation:
        """Add the repository to its owner's installation, which is created if needed."""
        one = self.find_installation(repo.owner)
        if one is None:
            granted = dict(self.app.permissions)
            one = AppInstallation(self.next_id(), repo.owner, granted, self.app.events)
            self.installations[one.id] = one
        if repo not in one.repos:
            one.repos.append(repo)
        repo.installation = one
        return one


def _write_folder(git: GitRepo, folder: Path) -> str:
    """Store a folder with executable bits, links and ignored files, but without its `.git`."""
    inside = {"GIT_DIR": str(git.path), "GIT_INDEX_FILE": str(git.path / "hub-index-seed")}
    try:
        run_git(
            folder, "--work-tree", str(folder), "-c", "core.bare=false", "add", "--force", "--all",
            ".", environment=inside,
        )  # fmt: skip
        return run_git(git.path, "write-tree", environment=inside).decode().strip()
    finally:
        Path(inside["GIT_INDEX_FILE"]).unlink(missing_ok=True)


def commit_tree(git: GitRepo, tree: str, branch: str, message: str) -> str:
    """Commit `tree` on top of `branch`, which may not exist yet; return the id."""
    parent = git.resolve(f"refs/heads/{branch}")
    author = Signature("The Owner", "owner@example.com", now())
    sha = git.write_commit(tree, [parent] if parent else [], f"{message}\n", author, author)
    git.set_ref(f"refs/heads/{branch}", sha)
    return sha
