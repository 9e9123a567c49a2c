"""Compares two commits; what only git knows of a pull request."""

from __future__ import annotations

import re
from dataclasses import dataclass

from capuchin_demo.hub.faults import GitCommandFailed
from capuchin_demo.hub.git_repository import ChangedFile, GitRepo
from capuchin_demo.hub.issue_json import PullFacts
from capuchin_demo.hub.state import Pull

STATUSES = {"A": "added", "D": "removed", "M": "modified", "R": "renamed", "C": "copied"}


@dataclass(frozen=True)
class RefComparison:
    """The comparison of two commits. `merge_base` is None for unrelated histories."""

    base: str
    head: str
    merge_base: str | None
    ahead: int
    behind: int


def compare(git: GitRepo, base: str, head: str) -> RefComparison:
    """Compare two commits by their ids."""
    counts = git.ask("rev-list", "--left-right", "--count", f"{base}...{head}")
    behind, ahead = (int(count) for count in counts.split())
    found = git.ask("merge-base", base, head, allowed_codes=(1,)).decode().strip()
    return RefComparison(base, head, found or None, ahead, behind)


def is_ancestor(git: GitRepo, old: str, new: str) -> bool:
    """Whether a branch can move from `old` to `new` without force."""
    found = git.ask("merge-base", old, new, allowed_codes=(1,)).decode().strip()
    return found == old


def is_mergeable(git: GitRepo, base: str, head: str) -> bool:
    """Whether git merges the two without conflicts."""
    out = git.ask(
        "merge-tree", "--write-tree", "--messages", base, head, allowed_codes=(1,)
    ).decode("utf-8", "replace")
    return "CONFLICT" not in out


def diff_files(git: GitRepo, old: str, new: str) -> list[ChangedFile]:
    """The files that differ between commits `old` and `new`, with renames."""
    out = git.ask("diff", "--no-color", "--raw", "--abbrev=40", "-z", "-M", old, new)
    fields = out.decode("utf-8", "replace").split("\0")[:-1]
    found: list[ChangedFile] = []
    while fields:
        _, _, old_sha, new_sha, letter = fields.pop(0).split()
        before = fields.pop(0) if letter[0] in "RC" else None
        path = fields.pop(0)
        patch = _read_patch(git, old, new, [path] if before is None else [before, path])
        found.append(_parse_change(path, before, letter, old_sha, new_sha, patch))
    return found


def diff_text(git: GitRepo, old: str, new: str) -> str:
    """The whole diff, as `git diff` prints it."""
    out = git.ask("diff", "--no-color", "-M", old, new)
    return out.decode("utf-8", "replace")


def _parse_change(
    path: str, before: str | None, letter: str, old_sha: str, new_sha: str, patch: str
) -> ChangedFile:
    lines = patch.split("\n")
    return ChangedFile(
        path,
        before,
        STATUSES.get(letter[0], "changed"),
        old_sha if letter[0] == "D" else new_sha,
        sum(line.startswith("+") for line in lines),
        sum(line.startswith("-") for line in lines),
        patch,
    )


def _read_patch(git: GitRepo, old: str, new: str, paths: list[str]) -> str:
    """The hunks of a patch, from the first `@@`; empty for binary files and pure renames."""
    out = git.ask("--literal-pathspecs", "diff", "--no-color", "-M", old, new, "--", *paths)
    text = out.decode("utf-8", "replace")
    start = re.search(r"^@@ ", text, re.MULTILINE)
    return text[start.start() :].rstrip("\n") if start else ""


def read_pull_facts(pull: Pull) -> PullFacts:
    """Read the data from git."""
    git = pull.repo.git
    compared = compare(git, pull.base_sha, pull.head_sha)
    changed = diff_files(git, compared.merge_base or pull.base_sha, pull.head_sha)
    try:
        clean = is_mergeable(git, pull.base_sha, pull.head_sha)
    except GitCommandFailed:
        clean = False
    return PullFacts(
        compared.ahead,
        sum(change.additions for change in changed),
        sum(change.deletions for change in changed),
        len(changed),
        clean,
    )
