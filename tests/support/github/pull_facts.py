"""What only git knows of a pull request."""

from __future__ import annotations

from dataclasses import dataclass

from capuchin_demo.hub.git_compare import changed_files, compare
from capuchin_demo.hub.github_errors import GitCommandFailed
from capuchin_demo.hub.state import Pull


def read_pull_facts(pull: Pull) -> PullFacts:
    """Read the data from git."""
    git, base, head = pull.repo.git, pull.base_sha, pull.head_sha
    changed = changed_files(pull)
    try:
        merged = git.ask("merge-tree", "--write-tree", "--messages", base, head, allowed_codes=(1,))
        mergeable = b"CONFLICT" not in merged
    except GitCommandFailed:
        mergeable = False
    return PullFacts(
        compare(git, base, head).ahead,
        sum(change.additions for change in changed),
        sum(change.deletions for change in changed),
        len(changed),
        mergeable,
    )


@dataclass(frozen=True)
class PullFacts:
    """The data of a pull request that only git knows."""

    commits: int
    additions: int
    deletions: int
    changed_files: int
    mergeable: bool | None
