"""Creates commits from diffs with git's plumbing, without a worktree, and pushes them."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path

from bot.errors import UnfitDiff
from bot.git.remote import Remote
from bot.github.repository import Identity
from bot.types import CommitSha
from pipeline.codebase.git import GitFailed, git
from sandbox.scratch import scratch_folder

BRANCH_PREFIX = "capuchin/"
"""The prefix of all our branches."""
MAX_SLUG_CHARACTERS = 40
_FORBIDDEN = re.compile(rb"(^|/)\.git(/|$)|^\.github/", re.I)


_UNFIT_DIFF = re.compile(
    r"invalid path|does not apply|in index|in working dir|corrupt patch|no valid patch"
)


def branch_name(issue: int, title: str, attempt: int = 1) -> str:
    """`capuchin/issue-N-slug` in ASCII; with `-2` and so on for a later attempt."""
    plain = unicodedata.normalize("NFKD", title).encode("ascii", "ignore").decode().lower()
    slug = re.sub(r"[^a-z0-9]+", "-", plain).strip("-")
    if len(slug) > MAX_SLUG_CHARACTERS:
        slug = slug[: MAX_SLUG_CHARACTERS + 1].rpartition("-")[0] or slug[:MAX_SLUG_CHARACTERS]
    words = [f"{BRANCH_PREFIX}issue-{issue}", slug, str(attempt) if attempt > 1 else ""]
    return "-".join(word for word in words if word)


async def create_commit(
    git_dir: Path, *, parent: CommitSha, diff: str, message: str, author: Identity, at: datetime
) -> CommitSha:
    """Commit `diff` on top of `parent` and return the SHA; equal arguments yield equal SHAs.

    Raises:
        UnfitDiff: the diff does not apply, or changes `.git` or `.github`.
        GitFailed: the repository is damaged.
    """
    with scratch_folder("index") as folder:
        index = {"GIT_INDEX_FILE": str(folder / "index")}
        await git(git_dir, "read-tree", parent, env=index)
        await _apply_diff(git_dir, diff, index)
        tree = (await git(git_dir, "write-tree", env=index)).decode().strip()
    changed = await git(
        git_dir, "diff-tree", "-r", "-z", "--no-renames", "--name-only", parent, tree
    )
    if any(_FORBIDDEN.search(path) for path in changed.split(b"\0")):
        raise UnfitDiff("it changes a path that no edit may change")
    return await _commit_tree(git_dir, tree, parent, message, signature_env(author, at))


async def copy_commit(
    git_dir: Path,
    *,
    parent: CommitSha,
    source: CommitSha,
    message: str,
    author: Identity,
    at: datetime,
) -> CommitSha:
    """Commit the files of the commit `source` on top of `parent` and return the SHA.

    Raises:
        GitFailed: the repository is damaged.
    """
    found = await git(git_dir, "rev-parse", "--verify", "--end-of-options", f"{source}^{{tree}}")
    tree = found.decode().split()[-1]
    return await _commit_tree(git_dir, tree, parent, message, signature_env(author, at))


async def push(
    git_dir: Path, remote: Remote, *, sha: CommitSha, branch: str, expected: CommitSha | None
) -> None:
    """Set the remote's branch to `sha`; `expected` is its current SHA, None for a new branch.

    Raises:
        PushRejected: the branch has moved, or the repository's rules forbid the push.
        RepositoryGone: the repository no longer exists.
        GitHubUnavailable: the remote does not respond.
        GitFailed: any other failure.
    """
    ref = f"refs/heads/{branch}"
    await remote.git(
        git_dir, "push", "--quiet", "--no-verify", "--no-follow-tags",
        "--recurse-submodules=no", f"--force-with-lease={ref}:{expected or ''}",
        remote.url, f"{sha}:{ref}",
    )  # fmt: skip


async def _commit_tree(
    git_dir: Path, tree: str, parent: CommitSha, message: str, signature_env: Mapping[str, str]
) -> CommitSha:
    made = await git(
        git_dir, "commit-tree", tree, "-p", parent, input=message.encode(), env=signature_env
    )
    return CommitSha(made.decode().strip())


async def _apply_diff(git_dir: Path, diff: str, index: Mapping[str, str]) -> None:
    try:
        await git(
            git_dir, "apply", "--cached", "--whitespace=nowarn", "-",
            input=diff.encode(), env=index,
        )  # fmt: skip
    except GitFailed as failure:
        if _UNFIT_DIFF.search(failure.words):
            raise UnfitDiff("it does not apply") from failure
        raise


def signature_env(author: Identity, at: datetime) -> dict[str, str]:
    """The environment of `git commit-tree`: author, committer and date."""
    when = f"{int(at.astimezone(UTC).timestamp())} +0000"
    return {
        "GIT_AUTHOR_NAME": author.login,
        "GIT_AUTHOR_EMAIL": author.email,
        "GIT_AUTHOR_DATE": when,
        "GIT_COMMITTER_NAME": author.login,
        "GIT_COMMITTER_EMAIL": author.email,
        "GIT_COMMITTER_DATE": when,
    }
