"""What the tests' GitHub knows beyond the demo's, and a record of all that it is asked."""

import secrets
from collections import defaultdict
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Literal
from urllib.parse import parse_qsl

from starlette.requests import Request

from capuchin_demo.hub.git_repository import GitRepo, run_git
from capuchin_demo.hub.hub_state import State, commit_files, commit_tree
from capuchin_demo.hub.rest_call import RestCall
from capuchin_demo.hub.state import Repo, User
from capuchin_demo.hub.tokens import AppIdentity, Token
from tests.support.github.faults import ContentLimit, Faults, RateLimit
from tests.support.github.git_repository import FastRepo


@dataclass(frozen=True)
class Exchange:
    """One request and its response. `path` has no `/api/v3` and no query."""

    api: Literal["rest", "git", "graphql"]
    method: str
    path: str
    query: tuple[tuple[str, str], ...]
    headers: dict[str, str]
    body: bytes
    status: int
    response_headers: dict[str, str]
    response: bytes
    actor: str | None
    installation: int | None


@dataclass(frozen=True)
class Popularity:
    """What a search for repositories looks at."""

    stars: int = 0
    language: str | None = None
    licence: str = ""
    """Its SPDX identifier; empty: GitHub knows none."""


@dataclass
class Rules:
    """The rules of a repository; empty ones refuse nothing. Patterns must match the whole text."""

    signatures: bool = False
    """Commits must be verified."""
    secrets: tuple[str, ...] = ()
    """Texts that no pushed file may contain."""
    branch_names: str = ""
    messages: str = ""
    author_emails: str = ""
    pull_requests: str = ""
    """Why no pull request may be opened; empty: it may."""
    required_checks: tuple[str, ...] = ()


class GitHubState(State):
    """`requests` lists every REST and git request in order; `unexpected` lists requests that are
    not implemented, and a test should find it empty.
    """

    git_type = FastRepo

    def __init__(self, root: Path, webhook_secret: str, app: AppIdentity) -> None:
        super().__init__(root, webhook_secret, app)
        self.faults = Faults()
        self.limit = RateLimit()
        self.search_limit = RateLimit(limit=30, window=60, resource="search")
        self.popularity: dict[int, Popularity] = {}
        """By the repository's id."""
        self.private_mode = True
        """True like an Enterprise Server: every read needs a token. False like github.com."""
        self.requests: list[Exchange] = []
        self.unexpected: list[str] = []
        self.moved: dict[str, Repo] = {}
        """By names that repositories had before; requests are redirected from there."""
        self.renamed_branches: dict[tuple[str, ...], str] = {}
        """By repository and the name before; requests for the branch are redirected."""
        self.attachments: dict[str, bytes] = {}
        """What people attached to issues, by path."""
        self.attachment_jwt = secrets.token_urlsafe(16)
        """Signs the addresses of pictures."""
        self.new_apps: dict[str, tuple[AppIdentity, str]] = {}
        """By code: each new App with its webhook secret, until its keys are fetched."""
        self.app_owners: list[str] = []
        """The organisation of each new App; empty for a person."""
        self.rules: defaultdict[int, Rules] = defaultdict(Rules)
        """By repository."""
        self.signing_keys: dict[str, str] = {}
        """By an account's verified address the SSH key that it has for signing."""
        self.blocked: dict[int, str] = {}
        """By installation: the message of a 403 to every call, such as that of a list of allowed
        addresses."""
        self.content_limits: dict[int, ContentLimit] = {}
        """By installation."""
        self._listeners: list[Callable[[Exchange], None]] = []

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
            ValueError: the name is taken.
            GitCommandFailed: git rejects the branch name or a path.
        """
        repo = self.create_repo(full_name, default_branch)
        repo.private, repo.description = private, description
        if folder is not None:
            tree = _write_folder(repo.git, folder)
            commit_tree(repo.git, tree, default_branch, "Initial commit")
        elif files:
            commit_files(repo, files)
        if installed:
            self.add_to_installation(repo)
        return repo


def hub_of(call: RestCall) -> GitHubState:
    """The tests' GitHub, which a call of it is for."""
    assert isinstance(call.state, GitHubState)
    return call.state


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
