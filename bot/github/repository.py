"""One repository as our App's installation sees it: what is there, and its branches."""

from __future__ import annotations

import base64
import binascii
from dataclasses import dataclass

from bot.github.errors import NotFound, Unprocessable
from bot.github.facts import FileFacts, RepositoryFacts
from bot.github.issues import Issues
from bot.github.pulls import Pulls
from bot.github.scope import Scope
from bot.types import RepoRef

FILE_BYTES = 256 * 1024
"""A configuration file larger than this is not read."""


@dataclass(frozen=True)
class Identity:
    """Who our App is on GitHub."""

    login: str
    """`name[bot]`."""
    email: str
    """The noreply address that GitHub shows as the App."""


class Repository:
    """What the bot does with one repository. Raises as `Wire.send` does unless said otherwise."""

    def __init__(self, scope: Scope, ref: RepoRef, identity: Identity) -> None:
        self._scope = scope
        self.ref = ref
        self.identity = identity
        self.issues = Issues(scope, identity.login)
        self.pulls = Pulls(scope, ref.owner)

    async def token(self) -> str:
        """An installation token for git, good for the next five minutes at least."""
        return await self._scope.credential.token()

    async def facts(self) -> RepositoryFacts | None:
        """None when the repository is gone or the App was uninstalled."""
        try:
            return RepositoryFacts.model_validate(await self._scope.get())
        except NotFound:
            return None

    async def permission(self, login: str) -> str:
        """`admin`, `maintain`, `write`, `triage`, `read` or `none`, of a person by login."""
        try:
            found = await self._scope.get("collaborators", login, "permission")
        except NotFound:
            return "none"
        # `permission` knows no more than admin, write, read; `role_name` tells maintain and
        # triage from them, or names a custom role, whose base `permission` then states.
        role = str(found.get("role_name") or "")
        known = ("admin", "maintain", "write", "triage", "read")
        return role if role in known else str(found.get("permission") or "none")

    async def file_text(self, *segments: str) -> str | None:
        """A file at the head of the default branch; None when there is no such text file."""
        try:
            found = await self._scope.get("contents", *segments)
        except NotFound:
            return None
        if isinstance(found, list):  # a folder
            return None
        file = FileFacts.model_validate(found)
        if file.type != "file" or file.encoding != "base64" or file.size > FILE_BYTES:
            return None
        try:
            return base64.b64decode(file.content).decode("utf-8")
        except (binascii.Error, UnicodeDecodeError):
            return None

    async def branch_head(self, branch: str) -> str | None:
        """The full SHA that a branch points at, or None when there is no such branch."""
        try:
            found = await self._scope.get("git", "ref", "heads", *branch.split("/"))
        except NotFound:
            return None
        except Unprocessable:  # GitHub's 409 for a repository without a commit
            return None
        return str(found["object"]["sha"])

    async def delete_branch(self, branch: str) -> None:
        """Delete a branch; fine when it is already gone."""
        try:
            await self._scope.send("DELETE", "git", "refs", "heads", *branch.split("/"))
        except (NotFound, Unprocessable):  # GitHub answers 422 for a missing reference
            return
