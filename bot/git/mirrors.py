"""A bare mirror of each repository, and where git fetches and pushes.

The token is in an anonymous file in memory (memfd_create(2)) that git inherits; an inline
credential helper, which git uses only for this host, prints it.
"""

import asyncio
import logging
import os
import re
import shutil
import tempfile
import time
from collections.abc import AsyncGenerator, Awaitable, Callable, Collection
from contextlib import aclosing, asynccontextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final, NamedTuple
from urllib.parse import urlsplit

from filelock import AsyncFileLock, FileLock, Timeout

from bot.errors import (
    GitHubError,
    GitHubUnavailable,
    PushRejected,
    RateLimited,
    RepositoryEmpty,
    RepositoryError,
    RepositoryGone,
)
from bot.git.push_refusals import read_push_refusal
from bot.github.refusals import UNSAID_SECONDS
from bot.settings import git_environment
from pipeline.codebase.commit import FETCHED_COMMITS, Codebase, list_tree
from pipeline.codebase.git import GitFailed, create_bare, git
from pipeline.data.types import CommitSha

TIMEOUT_SECONDS = 15 * 60
"""A fetch or push that takes longer is aborted and retried later."""
_STALL_OPTIONS = ("http.lowSpeedLimit=1000", "http.lowSpeedTime=60")
_GONE = re.compile(
    r"repository .{0,500} not found|returned error: 4(04|10)|not appear to be a git", re.I
)
_NO_BRANCH = re.compile(r"couldn't find remote ref", re.I)
_NO_COMMIT = re.compile(r"not our ref|unadvertised object|remote did not send all", re.I)
_REJECTED = re.compile(
    r"\[(remote )?rejected\]|stale info|fetch first|non-fast-forward|failed to push", re.I
)
_HICCUP = re.compile(
    r"internal server error|fatal error in commit_refs|unable to migrate objects|unpacker error"
    r"|temporarily (read.?only|unavailable|locked)|read.?only (mode|for maintenance)|maintenance"
    r"|locked for (a )?migration|being migrated",
    re.I,
)
"""What GitHub says of itself where it takes no push, though nothing forbids it.
https://github.com/orgs/community/discussions/categories/repositories"""
_FORBIDDEN = re.compile(r"returned error: 403", re.I)
_LIMITED = re.compile(r"returned error: 429|HTTP 429|^remote: .{0,200}secondary rate limit", re.M)
_TRANSIENT = re.compile(
    r"returned error: (401|403|408|429|5\d\d)|authentication failed"
    r"|could not read (username|password)"
    r"|could not resolve|failed to connect|connection (refused|reset|timed out)|rpc failed"
    r"|early eof|unexpected disconnect|operation too slow|empty reply|hung up|ssl|tls",
    re.I,
)


@dataclass(frozen=True)
class Remote:
    """A repository's address. `token` is called before every command; None for no token."""

    url: str
    """Contains no credential."""
    token: Callable[[], Awaitable[str]] | None = None
    on_limited: Callable[[float], Awaitable[None]] | None = None
    """Is told for how many seconds GitHub wants no more calls."""

    @classmethod
    def on_github(
        cls, github_url: str, full_name: str, token: Callable[[], Awaitable[str]] | None
    ) -> "Remote":
        """The repository `owner/name` of the GitHub at `github_url`."""
        return cls(f"{github_url.rstrip('/')}/{full_name}.git", token)

    async def git(self, git_dir: Path | None, *args: str) -> bytes:
        """Run a git command that connects to this remote.

        Raises:
            RepositoryGone, RepositoryEmpty, PushRejected: the remote refused.
            GitHubUnavailable: the remote did not respond, not in time, or limits us.
            GitFailed: any other failure, such as a damaged mirror.
        """
        token = await self.token() if self.token else None
        fd = os.memfd_create("credential", os.MFD_CLOEXEC)
        try:
            if token is not None:
                os.write(fd, f"username=x-access-token\npassword={token}\n".encode())
            config = self._config(fd if token is not None else None)
            async with asyncio.timeout(TIMEOUT_SECONDS):
                return await git(
                    git_dir, *args, env=git_environment(), config=config, pass_fds=(fd,),
                    seconds=TIMEOUT_SECONDS,
                )  # fmt: skip
        except TimeoutError:
            raise GitHubUnavailable(f"git {args[0]}: timed out after {TIMEOUT_SECONDS} s") from None
        except GitFailed as failure:
            error = translate_failure(failure)
            if isinstance(error, RateLimited) and self.on_limited is not None:
                await self.on_limited(UNSAID_SECONDS)
            raise error from None
        finally:
            os.close(fd)

    def _config(self, fd: int | None) -> list[str]:
        parts = urlsplit(self.url)
        config = [
            "protocol.allow=never",
            f"protocol.{parts.scheme}.allow=always",
            "http.followRedirects=false",
            *_STALL_OPTIONS,
        ]
        if fd is not None:
            host = f"{parts.scheme}://{parts.netloc}"
            # /proc/self/fd reopens the file, so that git can read it several times.
            helper = f'!f() {{ if test "$1" = get; then cat /proc/self/fd/{fd}; fi; }}; f'
            config.append(f"credential.{host}.helper={helper}")
        return config


def translate_failure(failure: GitFailed) -> Exception:
    """What a failed command means that spoke to a remote; itself, if the remote is not at fault."""
    words, message = failure.words, f"git {failure.command}"
    if _LIMITED.search(words):
        return RateLimited(message, words=words, retry_after=UNSAID_SECONDS)
    if _NO_BRANCH.search(words):
        return RepositoryEmpty(message)
    if _NO_COMMIT.search(words) or _GONE.search(words):
        return RepositoryGone(message)
    if failure.command == "push" and _HICCUP.search(words):
        return GitHubUnavailable(message, words=words)
    if _REJECTED.search(words) or (failure.command == "push" and _FORBIDDEN.search(words)):
        return PushRejected(*read_push_refusal(words))
    if _TRANSIENT.search(words):
        return GitHubUnavailable(message)
    return failure


log = logging.getLogger(__name__)

_OWNER_PATTERN = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,99}")
_NAME_PATTERN = re.compile(r"[A-Za-z0-9._-]{1,100}")
_COMMIT_PATTERN = re.compile(r"[0-9a-f]{40}|[0-9a-f]{64}")
_HEAD_REF = "refs/capuchin/head"
_HISTORY_COMMITS = 3000
"""How far back to look for a tag."""


@dataclass(frozen=True)
class Checkout:
    """A bare repository that contains `base` with all its files, but no history."""

    git_dir: Path
    base: CommitSha
    branch: str
    """The branch of `base`, and the base branch of the pull request."""


class Usage(NamedTuple):
    size_bytes: int
    evicted_bytes: int


class _Kept(NamedTuple):
    """A mirror, or the history of a repository."""

    place: Path
    name: str
    """`owner/name` in lower case."""
    used_at: float
    size_bytes: int


class Mirrors:
    """The mirrors under one folder; several processes may share it."""

    def __init__(self, root: Path) -> None:
        # git works in other folders, and the data folder may be a relative path.
        self._root = root.absolute()

    def path_of(self, remote: Remote, full_name: str) -> Path:
        """The path of the mirror of `owner/name`.

        Raises:
            RepositoryGone: the name cannot exist on GitHub, so it never becomes a path.
        """
        owner, _, name = full_name.partition("/")
        fit = _OWNER_PATTERN.fullmatch(owner) and _NAME_PATTERN.fullmatch(name)
        if not fit or name in (".", ".."):
            raise RepositoryGone("a name that cannot exist on GitHub")
        host = re.sub(r"[^A-Za-z0-9.-]", "_", urlsplit(remote.url).netloc or "local")
        return self._root / "mirrors" / host / owner.lower() / f"{name.lower()}.git"

    async def checkout(
        self, remote: Remote, full_name: str, branch: str, *, base: CommitSha | None = None
    ) -> Checkout:
        """Fetch the commit `base`, or the branch's head without `base`.

        A damaged mirror is deleted and cloned again.

        Raises:
            RepositoryGone: the repository or `base` no longer exists.
            RepositoryEmpty: the branch has no commits.
            GitHubUnavailable: the remote does not respond.
            GitFailed: git fails even in a fresh mirror.
            CodebaseTooLarge: the commit holds more files than are ever read.
        """
        place = self.path_of(remote, full_name)
        async with _lock(place):
            _mark_used(place)
            await asyncio.to_thread(_renew, place)
            try:
                commit = await self._fetch(place, remote, branch, base)
            except (GitFailed, OSError):
                await asyncio.to_thread(_discard, place)
                commit = await self._fetch(place, remote, branch, base)
        return Checkout(git_dir=place, base=commit, branch=branch)

    async def describe(self, remote: Remote, full_name: str, commit: CommitSha) -> str:
        """What `git describe --tags --long` says of `commit`; empty where that cannot be had.

        The mirror has no history, so the commits before it are fetched, without their files.
        """
        mirror = self.path_of(remote, full_name)
        place = self._root / "histories" / mirror.relative_to(self._root / "mirrors")
        if not _COMMIT_PATTERN.fullmatch(commit):
            return ""
        async with _lock(place):
            _mark_used(place)
            await asyncio.to_thread(_renew, place, _PROMISED)
            try:
                async with asyncio.timeout(60):
                    if not await asyncio.to_thread(place.exists):
                        await _create(place, "")
                    if not await _has_object(place, commit):
                        await remote.git(
                            place, "fetch", "--quiet", "--no-write-fetch-head", "--force",
                            "--filter=tree:0", f"--depth={_HISTORY_COMMITS}",
                            "--no-recurse-submodules", "--end-of-options", remote.url,
                            f"+{commit}:refs/capuchin/{commit}",
                        )  # fmt: skip
                    return await Codebase(place, commit, {}).describe()
            except (GitFailed, RepositoryError, GitHubError, OSError, TimeoutError) as error:
                log.info("Could not fetch the history of %s: %s", full_name, error)
                return ""

    async def discard(self, remote: Remote, full_name: str) -> None:
        place = self.path_of(remote, full_name)
        async with _lock(place):
            await asyncio.to_thread(_discard, place)

    async def evict(self, *, max_bytes: int, keep: Collection[str]) -> Usage:
        """Delete the least recently used mirrors until the rest fits into `max_bytes`.

        `keep` are `owner/name` of repositories that a run works on. What was used within the last
        hour stays too: a run may have just begun.
        """
        kept = {name.lower() for name in keep}
        found = sorted(
            await asyncio.to_thread(_measure_all, self._root), key=lambda one: one.used_at
        )
        total, evicted = sum(one.size_bytes for one in found), 0
        for one in found:
            if total <= max_bytes:
                break
            if one.name in kept or not await asyncio.to_thread(_evict, one):
                continue
            total -= one.size_bytes
            evicted += one.size_bytes
        return Usage(total, evicted)

    async def _fetch(
        self, place: Path, remote: Remote, branch: str, base: CommitSha | None
    ) -> CommitSha:
        if not await asyncio.to_thread(place.exists):
            await _create(place, base or "")
        elif await asyncio.to_thread(_count_packs, place) > 50:  # each fetch adds one
            await git(place, "gc", "--quiet", "--prune=2.weeks.ago")
        if base and await _has_commit(place, base):
            return base
        what = base if base else f"+refs/heads/{branch}:{_HEAD_REF}"
        if base and not _COMMIT_PATTERN.fullmatch(base):
            raise RepositoryGone("not a commit")
        await remote.git(
            place, "fetch", "--quiet", "--no-tags", "--no-write-fetch-head", "--force",
            f"--depth={FETCHED_COMMITS + 1}", "--no-recurse-submodules", "--end-of-options",
            remote.url, what,
        )  # fmt: skip
        if not base:
            found = await git(place, "rev-parse", "--verify", f"{_HEAD_REF}^{{commit}}")
            base = CommitSha(found.decode().strip())
        if not await _has_commit(place, base):
            raise GitFailed("fetch", 0, "the fetched commit is incomplete")
        return base


_CONFIG: Final = "[core]\n\trepositoryFormatVersion = 1\n\tbare = true\n"
_PROMISED: Final = (
    '[extensions]\n\tpartialClone = capuchin\n[remote "capuchin"]\n\tpromisor = true\n'
)
_OWN_FILE: Final = re.compile(
    r"FETCH_HEAD|HEAD|config|info|lfs|logs|objects|packed-refs|refs|shallow"
    r"|[\w-]+\.lock|shallow_\w+|gc\.(?:log|pid)|capuchin-reading\.sqlite(?:-\w+)?"
)
"""What git keeps in a bare repository, also while another run's command works, and what is kept of
reading it (`pipeline.context.files.cache`)."""


def _renew(place: Path, more: str = "") -> None:
    """Write the mirror's configuration anew, which could name programs.

    A mirror that leads elsewhere, by a link, another store of objects or a common folder, is
    deleted.
    """
    if not os.path.lexists(place):
        return
    elsewhere = place.is_symlink() or any(
        path.is_symlink() or not _OWN_FILE.fullmatch(path.name) for path in place.iterdir()
    )
    borrowed = [place / "objects/info" / name for name in ("alternates", "http-alternates")]
    if elsewhere or any(os.path.lexists(path) for path in borrowed):
        _discard(place)
        return
    config = place / "config"
    kept = config.read_text(errors="replace").lower() if config.is_file() else ""
    if re.search(r"(?m)^\s{0,9}objectformat = sha256$", kept):
        more += "[extensions]\n\tobjectFormat = sha256\n"
    scratch = place.with_suffix(".config")
    scratch.write_text(_CONFIG + more, encoding="ascii")
    scratch.replace(config)


async def _create(place: Path, commit: str) -> None:
    scratch = Path(await asyncio.to_thread(tempfile.mkdtemp, prefix=".new-", dir=place.parent))
    await create_bare(scratch, commit)
    await asyncio.to_thread(scratch.rename, place)


async def _has_object(place: Path, commit: CommitSha) -> bool:
    try:
        await git(place, "cat-file", "-e", commit)
    except GitFailed:
        return False
    return True


async def _has_commit(place: Path, commit: CommitSha) -> bool:
    """Whether the commit and all its trees are readable. Raises `CodebaseTooLarge`."""
    try:
        async with aclosing(list_tree(place, f"{commit}^{{commit}}", "--name-only")) as listing:
            async for _ in listing:
                pass
    except GitFailed:
        return False
    return True


def _count_packs(place: Path) -> int:
    return sum(1 for _ in (place / "objects" / "pack").glob("*.pack"))


def _discard(place: Path) -> None:
    """Move the mirror aside before deleting it, so that a crash leaves no partial mirror."""
    if not os.path.lexists(place):
        return
    trash = Path(tempfile.mkdtemp(prefix=".old-", dir=place.parent))
    place.rename(trash / "mirror")
    shutil.rmtree(trash, ignore_errors=True)


def _mark_used(place: Path) -> None:
    os.utime(place.with_suffix(".lock"))


def _measure_all(root: Path) -> list[_Kept]:
    found: list[_Kept] = []
    for folder in ("mirrors", "histories"):
        for place in (root / folder).glob("*/*/*.git"):
            with suppress(OSError):  # another worker deletes it
                used = place.with_suffix(".lock").stat().st_mtime
                files = (path for path in place.rglob("*") if path.is_file())
                size = sum(path.stat().st_blocks * 512 for path in files)
                found.append(_Kept(place, f"{place.parent.name}/{place.stem}", used, size))
    return found


def _evict(kept: _Kept) -> bool:
    """Delete it unless it is in use; whether it was deleted."""
    lock = kept.place.with_suffix(".lock")
    if time.time() - lock.stat().st_mtime < 3600:
        return False
    try:
        with FileLock(lock, timeout=0):
            _discard(kept.place)
    except Timeout:
        return False
    return True


@asynccontextmanager
async def _lock(place: Path) -> AsyncGenerator[None, None]:
    await asyncio.to_thread(place.parent.mkdir, parents=True, exist_ok=True, mode=0o700)
    async with AsyncFileLock(place.with_suffix(".lock"), mode=0o600):
        yield
