"""The hub's accounts, repositories and installations, and how they are created."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path

from bot.localhub.git.repo import GitRepo
from bot.localhub.git.seed import seed, seed_folder
from bot.localhub.identity import AppIdentity
from bot.localhub.json.repositories import DEFAULT_LABELS
from bot.localhub.state import AppInstallation, Label, Repo, User

LOGIN = re.compile(r"[A-Za-z0-9](?:[A-Za-z0-9-]{0,38})")
REPO_NAME = re.compile(r"(?!\.{1,2}$)(?!.*\.git$)[A-Za-z0-9._-]{1,100}")


class Registry:
    """Finds names without regard to case, as GitHub does. Folders are named by number."""

    def __init__(self, root: Path, app: AppIdentity) -> None:
        self.root = root.resolve()
        self.app = app
        self.users: dict[str, User] = {}
        self.repos: dict[str, Repo] = {}
        self.installations: dict[int, AppInstallation] = {}
        self._last_id = 1000
        self.bot = User(self.next_id(), app.bot_login, "Bot")
        self.users[app.bot_login.lower()] = self.bot

    def next_id(self) -> int:
        """A new id; ids are unique across all kinds of objects."""
        self._last_id += 1
        return self._last_id

    def add_user(self, login: str, *, organization: bool = False) -> User:
        """Find the account, or create it.

        Raises:
            ValueError: the name is not valid.
        """
        known = self.users.get(login.lower())
        if known is not None:
            return known
        if not LOGIN.fullmatch(login):
            raise ValueError(f"{login!r} is no login: letters, digits and hyphens, at most 39")
        account = User(self.next_id(), login, "Organization" if organization else "User")
        self.users[login.lower()] = account
        return account

    def find_user(self, login: str) -> User | None:
        return self.users.get(login.lower())

    def find_repo(self, full_name: str) -> Repo | None:
        return self.repos.get(full_name.lower())

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
        if not REPO_NAME.fullmatch(name):
            raise ValueError(f"{name!r} is no repository name")
        if full_name.lower() in self.repos:
            raise ValueError(f"{full_name} exists already")
        account = self.add_user(owner)
        number = self.next_id()
        git = GitRepo.create(self.root / "git" / f"{number}.git", default_branch)
        if folder is not None:
            seed_folder(git, folder, default_branch)
        elif files:
            seed(git, files, default_branch)
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
