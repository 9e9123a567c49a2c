"""Creates a repository's first commit from texts or from a folder."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from bot.localhub.git.repo import GitRepo
from bot.localhub.git.run import run_git
from bot.localhub.git.types import Signature
from bot.localhub.state import now


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
