"""What a commit holds by reference alone, fetched into its mirror: submodules on the same GitHub,
and files of Git LFS."""

import asyncio
import dataclasses
import logging
import posixpath
import re
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Final, NamedTuple
from urllib.parse import urlsplit

from bot.data.run import Login
from bot.errors import GitHubError, RepositoryError
from bot.git.mirrors import TIMEOUT_SECONDS, Mirrors, Remote
from bot.github.large_files import MOST_LARGE_BYTES, fetch_large_files
from bot.github.repository import Repository
from pipeline.codebase.commit import LARGE_FILES, SUBMODULE, Codebase
from pipeline.codebase.git import CodebaseTooLarge, GitFailed, git
from pipeline.data.types import CommitSha

logger = logging.getLogger(__name__)

MOST_SUBMODULES: Final = 20
"""Of a commit, those within others too."""


_ADDRESS: Final = re.compile(
    r"(?:(?:https?|git|ssh)://(?:[^@/\s]{1,200}@)?|[^@/\s:]{1,100}@)(?:(?:www|ssh)\.)?"
    r"([A-Za-z0-9.-]{1,253})(?::\d{1,5}(?=/))?[/:](.{1,200})"
)


class References(NamedTuple):
    """What fetches them for a run."""

    mirrors: Mirrors
    remote: Remote
    repo: Repository
    asked_by: Login
    github_url: str

    async def fetch(self, codebase: Codebase, name: str) -> Codebase:
        """The codebase of the repository `name` with what could be fetched of what its commit
        refers to."""
        with suppress(TimeoutError):
            async with asyncio.timeout(TIMEOUT_SECONDS):
                left = _Left()
                codebase = await self._add_submodules(codebase, name, left)
                await left.fetch_files(codebase, self.remote.url, self.repo.get_token)
        return codebase

    async def _add_submodules(self, part: Codebase, name: str, left: "_Left") -> Codebase:
        """`part` is of the repository `name`."""
        links = [file for file in part.files.values() if file.mode == SUBMODULE]
        addresses = await _read_addresses(part) if links else {}
        found: dict[str, Codebase] = {}
        for link in links:
            other = find_on_github(addresses.get(link.path, ""), name, self.github_url)
            if other is None or not left.submodules:
                continue
            left.submodules -= 1
            try:
                code = await self._fetch_submodule(other, CommitSha(link.blob), left)
            except (GitHubError, RepositoryError, GitFailed, CodebaseTooLarge) as error:
                logger.info("Could not fetch the submodule %s: %s", other, error)
            else:
                found[link.path] = await self._add_submodules(code, other, left)
        return dataclasses.replace(part, submodules=found)

    async def _fetch_submodule(self, other: str, commit: CommitSha, left: "_Left") -> Codebase:
        """A private one is fetched, or read as an earlier run fetched it, only for a person who may
        read it: everybody who may push can name any in a file."""
        owner, _, name = other.partition("/")
        token = await self.repo.find_sibling_token(owner, name, self.asked_by)
        remote = Remote.on_github(self.github_url, other, token)
        if token is None:
            await remote.git(None, "ls-remote", "--quiet", "--end-of-options", remote.url, "HEAD")
        place = await self.mirrors.checkout(remote, other, "", base=commit)
        code = await Codebase.open(place.git_dir, place.base)
        await left.fetch_files(code, remote.url, token)
        return code


@dataclasses.dataclass
class _Left:
    """How much more is fetched for a commit."""

    submodules: int = MOST_SUBMODULES
    bytes: int = MOST_LARGE_BYTES

    async def fetch_files(
        self, part: Codebase, url: str, token: Callable[[], Awaitable[str]] | None
    ) -> None:
        """Fetch those of Git LFS."""
        pointers = await part.list_pointers()
        wanted = {one.sha256: one.size for one in pointers.values()}
        folder = part.git_dir / LARGE_FILES
        self.bytes = await fetch_large_files(url, token, wanted, folder, self.bytes)


async def _read_addresses(part: Codebase) -> dict[str, str]:
    """The addresses of submodules by their paths, as `.gitmodules` has them; untrusted."""
    try:
        listed = await git(
            part.git_dir, "config", "--no-includes", "--blob", f"{part.commit}:.gitmodules",
            "--null", "--list",
        )  # fmt: skip
    except GitFailed:
        return {}
    values: dict[str, dict[str, str]] = {}
    for entry in listed.decode("utf-8", "replace").split("\0"):
        key, _, value = entry.partition("\n")
        name, _, what = key.rpartition(".")
        values.setdefault(name, {})[what] = value
    return {one["path"]: one["url"] for one in values.values() if {"path", "url"} <= one.keys()}


def find_on_github(address: str, own: str, github_url: str) -> str | None:
    """The `owner/name` of a repository on the same GitHub; None for one elsewhere. A relative
    address begins at the repository `own`, as in gitmodules(5)."""
    if address.startswith(("./", "../")):
        path = posixpath.normpath(f"{own}/{address}")
    else:
        found = _ADDRESS.fullmatch(address)
        same = found and found[1].casefold() == urlsplit(github_url).hostname
        path = found[2] if found and same else ""
    named = re.fullmatch(r"([A-Za-z0-9][\w-]*/[\w.-]+?)(?:\.git)?/?", path, re.A)
    return named[1] if named else None
