"""Compares two commits."""

import re
from dataclasses import dataclass

from capuchin_demo.hub.git_repository import ChangedFile, GitRepo
from capuchin_demo.hub.state import Pull


@dataclass(frozen=True)
class RefComparison:
    """The comparison of two commits. `merge_base` is None for unrelated histories."""

    merge_base: str | None
    ahead: int
    behind: int


def compare(git: GitRepo, base: str, head: str) -> RefComparison:
    """Compare two commits by their ids."""
    counts = git.ask("rev-list", "--left-right", "--count", f"{base}...{head}")
    behind, ahead = (int(count) for count in counts.split())
    found = git.ask("merge-base", base, head, allowed_codes=(1,)).decode().strip()
    return RefComparison(found or None, ahead, behind)


def diff_files(git: GitRepo, old: str, new: str) -> list[ChangedFile]:
    """The files that differ between commits `old` and `new`, with renames."""
    out = git.ask("diff", "--no-color", "--raw", "--abbrev=40", "-z", "-M", old, new)
    fields = out.decode("utf-8", "replace").split("\0")[:-1]
    words = {"A": "added", "D": "removed", "M": "modified", "R": "renamed", "C": "copied"}
    found: list[ChangedFile] = []
    while fields:
        _, _, old_sha, new_sha, letter = fields.pop(0).split()
        before = fields.pop(0) if letter[0] in "RC" else None
        path = fields.pop(0)
        patch = _read_patch(git, old, new, [path] if before is None else [before, path])
        lines = patch.split("\n")
        found.append(
            ChangedFile(
                path,
                before,
                words.get(letter[0], "changed"),
                old_sha if letter[0] == "D" else new_sha,
                sum(line.startswith("+") for line in lines),
                sum(line.startswith("-") for line in lines),
                patch,
            )
        )
    return found


def _read_patch(git: GitRepo, old: str, new: str, paths: list[str]) -> str:
    """The hunks of a patch, from the first `@@`; empty for binary files and pure renames."""
    out = git.ask("--literal-pathspecs", "diff", "--no-color", "-M", old, new, "--", *paths)
    text = out.decode("utf-8", "replace")
    start = re.search(r"^@@ ", text, re.MULTILINE)
    return text[start.start() :].rstrip("\n") if start else ""


def fork_point(pull: Pull) -> str:
    """The commit with which the head of a pull request is compared."""
    return compare(pull.repo.git, pull.base_sha, pull.head_sha).merge_base or pull.base_sha


def changed_files(pull: Pull) -> list[ChangedFile]:
    """The files that a pull request changes."""
    return diff_files(pull.repo.git, fork_point(pull), pull.head_sha)


def pull_diff(pull: Pull) -> str:
    """The whole diff of a pull request, as `git diff` prints it."""
    out = pull.repo.git.ask("diff", "--no-color", "-M", fork_point(pull), pull.head_sha)
    return out.decode("utf-8", "replace")
