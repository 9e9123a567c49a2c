"""One repository as the App's installation sees it."""

import base64
import binascii
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from datetime import datetime
from typing import Any, Final, cast

from bot.data.github_facts import CoAuthor, CommitFacts, FileFacts, Identity, RepositoryFacts
from bot.data.run import Login, RepoRef
from bot.errors import Forbidden, NotFound, Unprocessable
from bot.github.actions import Actions
from bot.github.checks import Checks
from bot.github.http import PER_PAGE
from bot.github.issues import Issues
from bot.github.pulls import Pulls
from bot.github.repository_api import RepositoryApi
from pipeline.data.types import CommitSha

HISTORY_PAGES: Final = 5
"""Limits reading to 500 commits of a branch."""
DEFAULTS_REPOSITORY = ".github"
"""Its files are the defaults of the owner's other repositories:
https://docs.github.com/communities/setting-up-your-project-for-healthy-contributions"""


class Repository:
    """All access to one repository.

    All methods raise a `GitHubError` if GitHub is unavailable or refuses the request.
    """

    def __init__(
        self,
        api: RepositoryApi,
        ref: RepoRef,
        identity: Identity,
        actions: Actions,
        *,
        defaults: RepositoryApi | None = None,
        open_sibling: Callable[[str], Awaitable[RepositoryApi]] | None = None,
    ) -> None:
        """`defaults` is the owner's `.github` repository, which is only read; `open_sibling` opens
        another of the installation, to be read, by its name."""
        self._api = api
        self._defaults = defaults
        self._open_sibling = open_sibling
        self.ref = ref
        self.identity = identity
        self.issues = Issues(api, identity.login)
        self.pulls = Pulls(api, ref.owner)
        self.checks = Checks(api)
        self.actions = actions

    async def find_co_author(self, login: Login) -> CoAuthor:
        """A person's account. GitHub credits a commit by the number before the login."""
        host = self.identity.email.partition("@")[2]
        try:
            number = f"{(await self._api.get_user(login))['id']}+"
        except NotFound:  # the account was deleted, or renamed
            number = ""
        return CoAuthor(login=login, email=f"{number}{login}@{host}")

    async def count_push(self) -> None:
        """Count a push that is about to happen. Raises `WritesSpent`."""
        await self._api.count_write()

    async def note_limit(self, seconds: float) -> None:
        """GitHub has told git that it limits the installation."""
        await self._api.block(seconds)

    async def check_permissions(self) -> None:
        """Check that the installation has accepted what a run needs. Raises PermissionMissing."""
        await self._api.credential.check_permissions()

    async def get_token(self) -> str:
        """An installation token for git, valid for at least five minutes."""
        return await self._api.credential.get_token()

    async def get_facts(self) -> RepositoryFacts | None:
        found = await self._api.find()
        return None if found is None else RepositoryFacts.model_validate(found)

    async def get_permission(self, login: Login) -> str:
        """A person's permission: `admin`, `maintain`, `write`, `triage`, `read` or `none`."""
        return await _get_permission(self._api, login)

    async def find_sibling_token(
        self, owner: str, name: str, login: Login
    ) -> Callable[[], Awaitable[str]] | None:
        """What gives a token to read another repository of the installation, if the person may read
        it; None if not, or if it is not part of the installation."""
        if self._open_sibling is None or owner.casefold() != self.ref.owner.casefold():
            return None
        try:
            api = await self._open_sibling(name)
            may_read = await _get_permission(api, login) != "none"
        except (NotFound, Forbidden, Unprocessable):
            return None
        return api.credential.get_token if may_read else None

    async def read_file(self, *segments: str, ref: str | None = None) -> str | None:
        """A file at the default branch's head, or at `ref`; None if it is missing or over 1 MiB.

        Bytes that are not UTF-8 become replacement characters, so that the caller can report them.
        """
        return await _read_file(self._api, *segments, ref=ref)

    async def read_defaults_file(self, *segments: str) -> str | None:
        """A file of the owner's `.github` repository; None if we cannot read it."""
        if self._defaults is None:
            return None
        try:
            await self._defaults.credential.get_token()
        except (NotFound, Forbidden):  # the installation does not include it
            self._defaults = None
            return None
        return await _read_file(self._defaults, *segments)

    async def get_branch_head(self, branch: str) -> CommitSha | None:
        try:
            found = await self._api.get("git", "ref", "heads", *branch.split("/"))
        except NotFound:
            return None
        except Unprocessable:  # GitHub's 409 for a repository without a commit
            return None
        return CommitSha(found["object"]["sha"])

    async def find_branch_name(self, branch: str) -> str | None:
        """What the branch is called today: GitHub leads from a name that it had before.

        https://docs.github.com/rest/branches/branches#get-a-branch
        """
        found = await self._api.find("branches", *branch.split("/"))
        return None if found is None else str(found["name"])

    async def get_workflows(self, branch: str) -> str:
        """What identifies the workflow files of a branch; empty if it has none."""
        found = await self._api.find("contents", ".github", ref=branch)
        listed = cast("list[dict[str, str]]", found if isinstance(found, list) else [])
        return next((one["sha"] for one in listed if one["name"] == "workflows"), "")

    async def list_branches(self) -> AsyncIterator[str]:
        """The names of the first 300 branches."""
        async for branch in self._api.paginate("branches", limit=3):
            yield str(branch["name"])

    async def list_recent_messages(self) -> list[str]:
        """The messages of the latest hundred commits on the default branch."""
        listed = self._api.paginate("commits", limit=1)
        try:
            return [str(item["commit"]["message"]) async for item in listed]
        except (NotFound, Unprocessable):  # the branch is gone, or (409) there is no commit
            return []

    async def list_commits(self, branch: str, since: datetime) -> tuple[list[CommitFacts], bool]:
        """The commits since `since`, newest first, and whether some were not read.

        Empty if the branch is gone.
        """
        listed = self._api.paginate(
            "commits", limit=HISTORY_PAGES, sha=branch, since=f"{since:%Y-%m-%dT%H:%M:%SZ}"
        )
        try:
            found = [CommitFacts.model_validate(item) async for item in listed]
        except (NotFound, Unprocessable):
            return [], False
        return found, len(found) == HISTORY_PAGES * PER_PAGE

    async def create_blob(self, content: bytes) -> str:
        encoded = base64.b64encode(content).decode()
        return await self._create("blobs", {"content": encoded, "encoding": "base64"})

    async def create_tree(self, base: str, files: Sequence[Mapping[str, str | None]]) -> str:
        """The SHA of the tree `base` with `files`, as GitHub's API takes them."""
        return await self._create("trees", {"base_tree": base, "tree": list(files)})

    async def create_commit(
        self, tree: str, parents: Sequence[CommitSha], message: str
    ) -> CommitSha:
        """A commit by us, now. GitHub signs it, as it names no author and no committer."""
        commit = {"message": message, "tree": tree, "parents": list(parents)}
        return CommitSha(await self._create("commits", commit))

    async def _create(self, kind: str, json: Mapping[str, Any]) -> str:
        """An object of git; another try makes it again, which nobody sees."""

        async def find() -> str | None:
            return None

        async def create() -> str:
            return str((await self._api.send("POST", "git", kind, json=json))["sha"])

        return await self._api.find_or_create(find, create)

    async def create_branch_with(
        self, branch: str, *, base: str, path: str, text: str, message: str
    ) -> None:
        """Create a branch: a commit by us that adds one file to `base`. An existing branch stays.

        Raises:
            Forbidden, Unprocessable: the repository's rules forbid it, for one.
        """
        parent = await self._api.get("git", "commits", base)
        file = {"path": path, "mode": "100644", "type": "blob", "content": text}

        async def create() -> str:
            tree = await self.create_tree(parent["tree"]["sha"], [file])
            made = await self.create_commit(tree, [CommitSha(base)], message)
            ref = {"ref": f"refs/heads/{branch}", "sha": made}
            await self._api.send("POST", "git", "refs", json=ref)
            return made

        await self._api.find_or_create(lambda: self.get_branch_head(branch), create)

    async def delete_branch(self, branch: str) -> None:
        try:
            await self._api.send("DELETE", "git", "refs", "heads", *branch.split("/"))
        except (NotFound, Unprocessable):  # GitHub answers 422 for a missing reference
            return


async def _get_permission(api: RepositoryApi, login: Login) -> str:
    found: dict[str, Any] = await api.find("collaborators", login, "permission") or {}
    # `permission` is only admin, write or read; `role_name` also distinguishes maintain and
    # triage, or names a custom role, whose base is in `permission`.
    role = str(found.get("role_name") or "")
    known = ("admin", "maintain", "write", "triage", "read")
    return role if role in known else str(found.get("permission") or "none")


async def _read_file(api: RepositoryApi, *segments: str, ref: str | None = None) -> str | None:
    query = {} if ref is None else {"ref": ref}
    found = await api.find("contents", *segments, **query)
    if found is None or isinstance(found, list):  # a folder
        return None
    file = FileFacts.model_validate(found)
    if file.type != "file" or file.encoding != "base64":
        return None
    try:
        return base64.b64decode(file.content).decode("utf-8", "replace")
    except binascii.Error:
        return None
