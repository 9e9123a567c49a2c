"""The data of a pull request that only git knows."""

from __future__ import annotations

from bot.localhub.errors import GitCommandFailed
from bot.localhub.git import diff
from bot.localhub.json.pulls import PullFacts
from bot.localhub.state import Pull


def read_pull_facts(pull: Pull) -> PullFacts:
    """Read the data from git."""
    git = pull.repo.git
    compared = diff.compare(git, pull.base_sha, pull.head_sha)
    changed = diff.diff_files(git, compared.merge_base or pull.base_sha, pull.head_sha)
    try:
        clean = diff.is_mergeable(git, pull.base_sha, pull.head_sha)
    except GitCommandFailed:
        clean = False
    return PullFacts(
        compared.ahead,
        sum(change.additions for change in changed),
        sum(change.deletions for change in changed),
        len(changed),
        clean,
    )
