"""A bare mirror of each repository, kept between runs, and checkouts of a run's commit."""

from __future__ import annotations

import asyncio
import fcntl
import os
import re
import shutil
import tempfile
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

from bot.errors import RepositoryGone
from bot.git.remote import Remote
from pipeline.codebase.git import GitFailed, git

_OWNER_PATTERN = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,99}")
_NAME_PATTERN = re.compile(r"[A-Za-z0-9._-]{1,100}")
_COMMIT_PATTERN = re.compile(r"[0-9a-f]{40}|[0-9a-f]{64}")
_HEAD_REF = "refs/capuchin/head"
_MAX_PACKS = 50
"""A mirror with more packs is repacked: each fetch adds one."""
_LOCK_POLL_SECONDS = 0.05


@dataclass(frozen=True)
class Checkout:
    """A bare repository that contains `base` with all its files, but no history."""

    git_dir: Path
    base: str
    """Full SHA."""
    branch: str
    """The branch of `base`, and the base branch of the pull request."""


class Mirrors:
    """The mirrors under one folder; several processes may share it."""

    def __init__(self, root: Path) -> None:
        self._root = root

    def path_of(self, remote: Remote, full_name: str) -> Path:
        """The path of the mirror of `owner/name`.

        Raises:
            RepositoryGone: the name cannot exist on GitHub, so it never becomes a path.
        """
        owner, _, name = full_name.partition("/")
        if (
            not _OWNER_PATTERN.fullmatch(owner)
            or not _NAME_PATTERN.fullmatch(name)
            or name in (".", "..")
        ):
            raise RepositoryGone("a name that cannot exist on GitHub")
        host = re.sub(r"[^A-Za-z0-9.-]", "_", urlsplit(remote.url).netloc or "local")
        return self._root / "mirrors" / host / owner.lower() / f"{name.lower()}.git"

    async def checkout(
        self, remote: Remote, full_name: str, branch: str, *, base: str = ""
    ) -> Checkout:
        """Fetch the commit `base`, or the branch's head if `base` is empty.

        A damaged mirror is deleted and cloned again.

        Raises:
            RepositoryGone: the repository or `base` no longer exists.
            RepositoryEmpty: the branch has no commits.
            GitHubUnavailable: the remote does not respond.
            GitFailed: git fails even in a fresh mirror.
        """
        place = self.path_of(remote, full_name)
        async with _lock(place):
            try:
                commit = await self._fetch(place, remote, branch, base)
            except (GitFailed, OSError):
                await asyncio.to_thread(_discard, place)
                commit = await self._fetch(place, remote, branch, base)
        return Checkout(git_dir=place, base=commit, branch=branch)

    async def discard(self, remote: Remote, full_name: str) -> None:
        """Delete a damaged mirror."""
        place = self.path_of(remote, full_name)
        async with _lock(place):
            await asyncio.to_thread(_discard, place)

    async def _fetch(self, place: Path, remote: Remote, branch: str, base: str) -> str:
        if not await asyncio.to_thread(place.exists):
            await _create(place)
        elif await asyncio.to_thread(_count_packs, place) > _MAX_PACKS:
            await git(place, "gc", "--quiet", "--prune=2.weeks.ago")
        if base and await _has_commit(place, base):
            return base
        what = base if base else f"+refs/heads/{branch}:{_HEAD_REF}"
        if base and not _COMMIT_PATTERN.fullmatch(base):
            raise RepositoryGone("not a commit")
        await remote.git(
            place, "fetch", "--quiet", "--no-tags", "--no-write-fetch-head", "--force",
            "--depth=1", "--no-recurse-submodules", "--end-of-options", remote.url, what,
        )  # fmt: skip
        if not base:
            found = await git(place, "rev-parse", "--verify", f"{_HEAD_REF}^{{commit}}")
            base = found.decode().strip()
        if not await _has_commit(place, base):
            raise GitFailed("fetch", 0, "the commit did not arrive whole")
        return base


async def _create(place: Path) -> None:
    """An empty bare repository at `path_of`, whole or not at all."""
    scratch = Path(await asyncio.to_thread(tempfile.mkdtemp, prefix=".new-", dir=place.parent))
    await git(None, "init", "--quiet", "--bare", "--template=", str(scratch))
    await asyncio.to_thread(scratch.rename, place)


async def _has_commit(place: Path, commit: str) -> bool:
    """Whether the commit and all its trees are readable."""
    try:
        await git(place, "ls-tree", "-r", "--name-only", "-z", f"{commit}^{{commit}}")
    except GitFailed:
        return False
    return True


def _count_packs(place: Path) -> int:
    return sum(1 for _ in (place / "objects" / "pack").glob("*.pack"))


def _discard(place: Path) -> None:
    """Move the mirror aside before deleting it, so that a crash leaves no partial mirror."""
    if not place.exists():
        return
    trash = Path(tempfile.mkdtemp(prefix=".old-", dir=place.parent))
    place.rename(trash / "mirror")
    shutil.rmtree(trash, ignore_errors=True)


@asynccontextmanager
async def _lock(place: Path) -> AsyncGenerator[None, None]:
    """Serialise fetches into a mirror across processes; the lock of a dead process is released."""
    await asyncio.to_thread(place.parent.mkdir, parents=True, exist_ok=True, mode=0o700)
    fd = os.open(place.with_suffix(".lock"), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        while not _try_lock(fd):  # noqa: ASYNC110 - another process cannot set our Event
            await asyncio.sleep(_LOCK_POLL_SECONDS)
        yield
    finally:
        os.close(fd)


def _try_lock(fd: int) -> bool:
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True
