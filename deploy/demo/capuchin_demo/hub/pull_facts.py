"""What only git knows of a pull request."""

from dataclasses import dataclass
from functools import lru_cache

from capuchin_demo.hub.git_compare import compare, diff_files
from capuchin_demo.hub.git_repository import GitRepo
from capuchin_demo.hub.github_errors import GitCommandFailed
from capuchin_demo.hub.state import Pull


@dataclass(frozen=True)
class PullFacts:
    commits: int
    additions: int
    deletions: int
    changed_files: int
    mergeable: bool | None


def pull_facts(pull: Pull) -> PullFacts:
    return _read(pull.repo.git, pull.base_sha, pull.head_sha)


@lru_cache(maxsize=1024)
def _read(git: GitRepo, base: str, head: str) -> PullFacts:
    compared = compare(git, base, head)
    changed = diff_files(git, compared.merge_base or base, head)
    try:
        merged = git.ask("merge-tree", "--write-tree", "--messages", base, head, allowed_codes=(1,))
        mergeable = b"CONFLICT" not in merged
    except GitCommandFailed:
        mergeable = False
    return PullFacts(
        compared.ahead,
        sum(change.additions for change in changed),
        sum(change.deletions for change in changed),
        len(changed),
        mergeable,
    )
