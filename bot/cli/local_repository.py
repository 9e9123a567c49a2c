"""Reads a repository on this machine as if it were far away: nothing that it brings along runs.

Its own `.git/config` can name programs (filters, monitors, remotes), and any folder of a clone can
be laid out as such a `.git`. So git never works inside of it: commits are fetched into a repository
of ours, for which git reads nothing of theirs but objects and refs.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from bot.errors import BotError
from pipeline.codebase.commit import Codebase
from pipeline.codebase.git import GitFailed, git
from pipeline.data.types import CommitSha
from pipeline.languages.registry import main_language
from sandbox.scratch import scratch_folder

_TRANSPORT: Final = ("protocol.file.allow=always",)
_UPLOAD_PACK: Final = "git -c uploadpack.allowFilter=true upload-pack"
"""Tags and commits are enough to describe a commit: no file is copied."""
_MAX_CONFIG: Final = 64 * 1024
_ORIGIN: Final = re.compile(
    r"(?m)^\s{0,20}url\s{0,5}=\s{0,5}"
    r"(?:(?:https?|ssh|git)://[\w.@:/-]{1,200}?[/:]|[\w.-]{1,60}@[\w.-]{1,200}:)"
    r"([\w.-]{1,100})/([\w.-]{1,100})/?$"
)
_SHA: Final = re.compile(r"[0-9a-f]{40}|[0-9a-f]{64}")
_REF_FORMS: Final = ("{}", "refs/{}", "refs/tags/{}", "refs/heads/{}", "refs/remotes/{}")
"""Where git looks for a name, in its order (gitrevisions(7))."""
_LIST_SECONDS: float = 60.0
_BARE: Final = ("HEAD", "objects", "refs")


class NoRepository(BotError):
    """There is no repository that can be read; `str(error)` is a sentence."""


async def find_repository(folder: Path) -> Path:
    """The absolute path of the repository around `folder`: its top level, or the bare repository.

    Raises:
        NoRepository: `folder` is not a directory, or not in a repository.
    """
    return await asyncio.to_thread(_find, folder)


def _find(folder: Path) -> Path:
    if not folder.is_dir():
        raise NoRepository(f"{folder} is not a directory.")
    place = folder.resolve()
    if all((place / name).exists() for name in _BARE):
        return place
    for parent in (place, *place.parents):
        if (parent / ".git").exists():
            return parent
    raise NoRepository(
        f"{folder} is not a git repository: run `git init` there and commit its files."
    )


async def name_repository(repo: Path, codebase: Codebase) -> str:
    """`owner/name` by the address that it was cloned from, else its package's name, else its
    folder's: what a model is told."""
    return (
        await asyncio.to_thread(_read_origin, repo)
        or await main_language(codebase.files).distribution(codebase)
        or repo.name
    )


def _read_origin(repo: Path) -> str:
    """`owner/name` of the remote `origin`; empty for a path on this machine."""
    config = repo / "config" if (repo / "config").is_file() else repo / ".git/config"
    try:
        with config.open(encoding="utf-8", errors="replace") as file:
            text = file.read(_MAX_CONFIG)
    except OSError:
        return ""
    section = re.split(r"(?m)^\s{0,20}\[", text.partition('[remote "origin"]')[2])[0]
    found = _ORIGIN.search(section)
    return f"{found[1]}/{found[2].removesuffix('.git')}" if found else ""


async def list_refs(repo: Path) -> dict[str, CommitSha]:
    """The commits of all refs by their full names, and of `HEAD` if there is one.

    Raises:
        NoRepository: git cannot read it.
    """
    try:
        async with asyncio.timeout(_LIST_SECONDS):
            listed = await git(None, "ls-remote", "--quiet", repo.as_uri(), config=_TRANSPORT)
    except TimeoutError:  # one of its files can be a pipe that nobody writes to
        raise NoRepository(f"{repo}: git could not list it in {_LIST_SECONDS:.0f} s.") from None
    except GitFailed as failure:
        fatal = [line for line in failure.words.splitlines() if line.startswith("fatal: ")]
        reason = (fatal or ["git cannot read it"])[0].removeprefix("fatal: ")
        raise NoRepository(f"{repo}: {reason}") from None
    refs: dict[str, CommitSha] = {}
    for line in listed.decode("utf-8", "replace").splitlines():
        commit, _, name = line.partition("\t")
        refs[name.removesuffix("^{}")] = CommitSha(commit)  # a tag's commit comes after the tag
    return refs


def find_commit(refs: Mapping[str, CommitSha], name: str) -> CommitSha | None:
    """The commit of a branch, a tag or a full commit id; None if there is no such ref."""
    if _SHA.fullmatch(name):
        return CommitSha(name)
    return next((refs[full] for form in _REF_FORMS if (full := form.format(name)) in refs), None)


async def describe_commit(repo: Path, commit: CommitSha) -> str:
    """The output of `git describe` for a commit; empty without a reachable tag.

    Raises:
        GitFailed: the repository is damaged.
    """
    with scratch_folder("tags") as scratch:
        await git(None, "init", "--quiet", "--bare", "--template=", str(scratch))
        await git(
            scratch, "fetch", "--quiet", "--tags", "--no-write-fetch-head", "--filter=tree:0",
            "--upload-pack", _UPLOAD_PACK, "--no-recurse-submodules", "--end-of-options",
            repo.as_uri(), commit,
            config=_TRANSPORT,
        )  # fmt: skip
        return await Codebase(scratch, commit, {}).describe()


async def fetch_history(repo: Path, into: Path, commits: list[CommitSha]) -> None:
    """Fetch commits with their history into a new bare repository in the empty folder `into`.

    Raises:
        GitFailed: one of them is not there, or the repository is damaged.
    """
    await git(None, "init", "--quiet", "--bare", "--template=", str(into))
    await git(
        into, "fetch", "--quiet", "--no-tags", "--no-write-fetch-head", "--no-recurse-submodules",
        "--end-of-options", repo.as_uri(), *commits,
        config=_TRANSPORT,
    )  # fmt: skip
