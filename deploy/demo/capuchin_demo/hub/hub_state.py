"""Everything that the hub knows, which its rooms share; `events.emit` tells the App of changes."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from capuchin_demo.hub import issue_json, repository_json
from capuchin_demo.hub.git_repository import GitRepo, Signature
from capuchin_demo.hub.state import (
    DEFAULT_LABELS,
    AppInstallation,
    Issue,
    Label,
    Pull,
    Repo,
    Site,
    User,
    Visitor,
    node_id,
    now,
)
from capuchin_demo.hub.tokens import AppIdentity, Token, Tokens
from capuchin_demo.hub.webhooks import Webhooks


class State:
    """The accounts, repositories, installations, tokens, webhooks and limits of one hub.

    Names are found without regard to case, as on GitHub. The folders of git repositories under
    `root` are named by number.
    """

    git_type: type[GitRepo] = GitRepo

    def __init__(self, root: Path, webhook_secret: str, app: AppIdentity) -> None:
        self.root = root.resolve()
        self.site = Site("http://localhub.invalid")
        self.users: dict[str, User] = {}
        self.repos: dict[str, Repo] = {}
        self.installations: dict[int, AppInstallation] = {}
        self.visitor: Visitor | None = None
        """Who acts by the forms of the pages; None: the pages have none."""
        self._last_id = 1000
        self.switch_app(app, webhook_secret)

    @property
    def url(self) -> str:
        """The hub's address."""
        return self.site.url

    @property
    def app_json(self) -> dict[str, Any]:
        """The App as GitHub's JSON."""
        return repository_json.app(self.app, self.bot)

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

    # Accounts and repositories

    def add_user(self, login: str, *, organization: bool = False) -> User:
        """Find the account, or create it."""
        known = self.users.get(login.lower())
        if known is not None:
            return known
        kind = "Organization" if organization else "User"
        account = User(self.site, self.next_id(), login, kind)
        self.users[login.lower()] = account
        return account

    def find_user(self, login: str) -> User | None:
        return self.users.get(login.lower())

    def find_repo(self, full_name: str) -> Repo | None:
        return self.repos.get(full_name.lower())

    def add_repo(self, full_name: str, files: Mapping[str, str | bytes]) -> Repo:
        """Create a repository with one commit of `files` and give the App access.

        Raises:
            ValueError: the name is taken.
            GitCommandFailed: git rejects a path.
        """
        repo = self.create_repo(full_name, "main")
        commit_files(repo, files)
        self.add_to_installation(repo)
        return repo

    def create_repo(self, full_name: str, default_branch: str) -> Repo:
        """Create an empty repository.

        Raises:
            ValueError: the name is taken.
            GitCommandFailed: git rejects the branch name.
        """
        owner, _, name = full_name.partition("/")
        if full_name.lower() in self.repos:
            raise ValueError(f"{full_name} exists already")
        account = self.add_user(owner)
        number = self.next_id()
        git = self.git_type.create(self.root / "git" / f"{number}.git", default_branch)
        repo = Repo(number, account, name, git, default_branch)
        for word in DEFAULT_LABELS:
            self.add_repo_label(repo, word)
        self.repos[full_name.lower()] = repo
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

    def emit(self, event: str, repo: Repo, by: User, payload: dict[str, Any]) -> None:
        """Send an event if the App has access to the repository and subscribes to the event."""
        one = repo.installation
        if one is None or event not in self.app.events:
            return
        self.webhooks.send(
            event,
            {
                "repository": repository_json.repository(repo),
                "sender": repository_json.user(by),
                "installation": {"id": one.id, "node_id": node_id("MDIz", one.id)},
                **payload,
            },
        )

    def emit_change(self, one: Issue, action: str, by: User, **more: Any) -> None:
        """Send `issues` with `action`, or `pull_request` for a pull request."""
        if isinstance(one, Pull):
            parts = {"number": one.number, "pull_request": issue_json.pull(one)}
            self.emit("pull_request", one.repo, by, {"action": action, **parts, **more})
        else:
            parts = {"issue": issue_json.issue(one)}
            self.emit("issues", one.repo, by, {"action": action, **parts, **more})

    # Rules, of which this hub has none

    def check_ref(self, repo: Repo, token: Token, name: str, old: str | None, new: str) -> None:
        """Raises Refusal: a rule forbids to move the ref so."""

    def check_new_pull(self, repo: Repo) -> None:
        """Raises Refusal: a rule forbids to open a pull request."""

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


def commit_files(repo: Repo, files: Mapping[str, str | bytes]) -> None:
    """The first commit of a repository."""
    git = repo.git
    blobs = {
        path: git.write_blob(text.encode() if isinstance(text, str) else text)
        for path, text in files.items()
    }
    tree = git.write_paths(None, {path: ("100644", sha) for path, sha in blobs.items()})
    commit_tree(git, tree, repo.default_branch, "Initial commit")


def commit_tree(git: GitRepo, tree: str, branch: str, message: str) -> str:
    """Commit `tree` on top of `branch`, which may not exist yet; return the id."""
    parent = git.resolve(f"refs/heads/{branch}")
    author = Signature("The Owner", "owner@example.com", now())
    sha = git.write_commit(tree, [parent] if parent else [], f"{message}\n", author, author)
    git.set_ref(f"refs/heads/{branch}", sha)
    return sha
