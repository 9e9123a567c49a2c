"""Merges our change with a newer base.

Mirrors have no history, so both commits get the same artificial parent for the merge.
"""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import NamedTuple

from bot.git.commits import signature_env
from bot.github.repository import Identity
from bot.types import CommitSha
from pipeline.codebase.commit import Codebase
from pipeline.codebase.git import GitFailed, git

_FIXED_TIME = datetime(2000, 1, 1, tzinfo=UTC)


class MergeResult(NamedTuple):
    """`commit` has no parent: only its files are relevant."""

    commit: CommitSha


async def merge_commits(
    git_dir: Path, *, base: CommitSha, ours: CommitSha, theirs: CommitSha, identity: Identity
) -> MergeResult | None:
    """Apply the changes from `base` to `ours` to `theirs`; None if they conflict.

    It merges like GitHub (git-merge-tree(1)); the repository contains all three commits.

    Raises:
        GitFailed: the repository is damaged.
    """
    if theirs == base:
        return MergeResult(ours)
    root = await _commit_copy(git_dir, base, identity)
    left = await _commit_copy(git_dir, theirs, identity, root)
    right = await _commit_copy(git_dir, ours, identity, root)
    try:
        found = await git(git_dir, "merge-tree", "--write-tree", left, right)
    except GitFailed as failure:
        if failure.status == 1:
            return None
        raise
    tree = found.decode().split("\n", 1)[0].strip()
    return MergeResult(await _commit_tree(git_dir, tree, identity))


async def read_changes(before: Codebase, after: Codebase) -> dict[str, bytes | None]:
    """The files that differ in `after`, by path; None for a deleted file."""
    ours = {path: (file.blob, file.mode) for path, file in after.files.items() if file.regular}
    olds = {path: (file.blob, file.mode) for path, file in before.files.items() if file.regular}
    new = [path for path in ours if olds.get(path) != ours[path]]
    gone: dict[str, bytes | None] = {path: None for path in olds if path not in ours}
    return {**await after.read_all(new), **gone}


async def _commit_copy(
    git_dir: Path, commit: CommitSha, identity: Identity, *parents: CommitSha
) -> CommitSha:
    return await _commit_tree(git_dir, f"{commit}^{{tree}}", identity, *parents)


async def _commit_tree(
    git_dir: Path, tree: str, identity: Identity, *parents: CommitSha
) -> CommitSha:
    name = (await git(git_dir, "rev-parse", "--verify", tree)).decode().strip()
    given = [word for parent in parents for word in ("-p", parent)]
    made = await git(
        git_dir, "commit-tree", name, *given, input=b"", env=signature_env(identity, _FIXED_TIME)
    )
    return CommitSha(made.decode().strip())
