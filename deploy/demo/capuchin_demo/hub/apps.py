"""Accounts, repositories, installations; creating an App.

https://docs.github.com/apps/sharing-github-apps/registering-a-github-app-from-a-manifest
"""

from __future__ import annotations

import json
import re
import secrets
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast
from urllib.parse import parse_qs, urlencode

from starlette.requests import Request
from starlette.responses import PlainTextResponse, RedirectResponse, Response

from capuchin_demo.hub.git_repository import GitRepo, Signature, run_git
from capuchin_demo.hub.repository_json import DEFAULT_LABELS
from capuchin_demo.hub.state import AppInstallation, Label, Repo, User, now
from capuchin_demo.hub.tokens import LEVELS, AppIdentity, generate_app

if TYPE_CHECKING:
    from capuchin_demo.hub.hub import LocalHub


def seed(
    git: GitRepo, files: Mapping[str, str | bytes], branch: str, message: str = "Initial commit"
) -> str:
    """Commit `files` (path to content) on `branch`, replacing the whole tree; return the id.

    Raises:
        GitCommandFailed: git rejects a path.
    """
    blobs = {path: ("100644", git.write_blob(_to_bytes(text))) for path, text in files.items()}
    return commit_tree(git, git.write_paths(None, dict(blobs)), branch, message)


def seed_folder(git: GitRepo, folder: Path, branch: str, message: str = "Initial commit") -> str:
    """Commit a folder with executable bits, links and ignored files, but without its `.git`."""
    inside = {"GIT_DIR": str(git.path), "GIT_INDEX_FILE": str(git.path / "hub-index-seed")}
    try:
        run_git(
            folder, "--work-tree", str(folder), "-c", "core.bare=false", "add", "--force", "--all",
            ".", environment=inside,
        )  # fmt: skip
        tree = run_git(git.path, "write-tree", environment=inside).decode().strip()
    finally:
        Path(inside["GIT_INDEX_FILE"]).unlink(missing_ok=True)
    return commit_tree(git, tree, branch, message)


def commit_tree(git: GitRepo, tree: str, branch: str, message: str) -> str:
    """Commit `tree` on top of `branch`, which may not exist yet; return the id."""
    parent = git.resolve(f"refs/heads/{branch}")
    author = Signature("The Owner", "owner@example.com", now())
    sha = git.write_commit(tree, [parent] if parent else [], f"{message}\n", author, author)
    git.set_ref(f"refs/heads/{branch}", sha)
    return sha


def _to_bytes(text: str | bytes) -> bytes:
    return text.encode() if isinstance(text, str) else text


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


MANIFEST_KEYS = frozenset(
    {"name", "url", "hook_attributes", "redirect_url", "callback_urls", "setup_url", "description",
     "public", "default_events", "default_permissions", "request_oauth_on_install",
     "setup_on_update"}
)  # fmt: skip
LONGEST_NAME = 34


class Registrations:
    """New Apps by code, until their keys are fetched."""

    def __init__(self) -> None:
        self._apps: dict[str, tuple[AppIdentity, str]] = {}
        self.accounts: list[str] = []
        """The organisation of each new App; empty for a person."""

    def put(self, app: AppIdentity, secret: str, account: str) -> str:
        """Add an App and return its code."""
        code = secrets.token_hex(20)
        self._apps[code] = app, secret
        self.accounts.append(account)
        return code

    def take(self, code: str) -> tuple[AppIdentity, str] | None:
        """The App and its webhook secret, on the first call only."""
        return self._apps.pop(code, None)


class RegistrationRouter:
    """Receives the form of a set-up page."""

    def __init__(self, hub: LocalHub) -> None:
        self._hub = hub

    async def handle(self, request: Request) -> Response:
        """Create the App and redirect the browser, or describe the manifest's error."""
        form = parse_qs((await request.body()).decode("utf-8", "replace"))
        try:
            manifest: Any = json.loads(form.get("manifest", [""])[0])
        except ValueError:
            manifest = None
        wrong = _manifest_problem(manifest)
        if wrong:
            return PlainTextResponse(f"Invalid GitHub App configuration: {wrong}", 422)
        slug = re.sub(r"[^a-z0-9]+", "-", manifest["name"].lower()).strip("-")
        app = replace(
            generate_app(self._hub.next_id(), slug),
            permissions=manifest["default_permissions"],
            events=tuple(manifest["default_events"]),
        )
        active = manifest["hook_attributes"].get("active", True)
        secret = secrets.token_hex(20) if active else ""
        self._hub.switch_app(app, secret)
        account = request.path_params.get("org", "")
        code = self._hub.registrations.put(app, secret, account)
        state = request.query_params.get("state")
        query = urlencode({"code": code} | ({"state": state} if state is not None else {}))
        return RedirectResponse(f"{manifest['redirect_url']}?{query}", 302)


def _manifest_problem(manifest: Any) -> str:
    """Why GitHub would reject the manifest; empty if it is valid."""
    if not isinstance(manifest, dict):
        return "not a JSON object"
    given = cast("dict[str, Any]", manifest)
    if unknown := given.keys() - MANIFEST_KEYS:
        return f"unknown {min(unknown)}"
    for key in ("name", "url", "redirect_url"):
        if not given.get(key):
            return f"{key} is missing"
    if len(given["name"]) > LONGEST_NAME:
        return "name is too long"
    if not given.get("hook_attributes", {}).get("url"):
        return "hook_attributes.url is missing"
    levels = given.get("default_permissions", {}).values()
    return "" if set(levels) <= set(LEVELS) else "no such permission"
