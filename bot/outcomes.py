"""Reads from GitHub what became of our pull requests: merged, changed, closed or reverted."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from datetime import datetime
from enum import StrEnum
from typing import Final, NamedTuple

from bot.git.commits import BRANCH_PREFIX
from bot.github.models import CommitFacts, PullRequestFacts
from bot.github.repository import Identity, Repository
from bot.outcomes.reverts import find_reverted
from pipeline.concurrency import gather_bounded

MAX_LOOKUPS: Final = 20
"""How many pull requests that only our records list are fetched one by one: the latest."""
MAX_BASES: Final = 2
CONCURRENCY: Final = 5
"""Parallel requests to GitHub: a command must end within `bot.storage.requests.CLAIM_SECONDS`."""


class PullOutcome(StrEnum):
    """What people decided about a pull request of ours."""

    MERGED = "merged"
    """As we proposed it."""
    CHANGED = "changed"
    """Merged with commits by other people."""
    CLOSED = "closed"
    """Without a merge."""
    REVERTED = "reverted"
    """After the merge."""


class DecidedPull(NamedTuple):
    """A pull request of ours that people decided about."""

    facts: PullRequestFacts
    outcome: PullOutcome


class FoundPulls(NamedTuple):
    """Our pull requests that were opened in a period."""

    pulls: list[PullRequestFacts]
    reverted: frozenset[int]
    """The numbers of those that were merged and reverted."""
    not_all_pulls: bool
    """The repository has more pull requests from the period than were read."""
    not_all_commits: bool
    """The repository has more commits from the period than were searched for reverts."""

    @property
    def merged(self) -> list[PullRequestFacts]:
        return [one for one in self.pulls if one.merged_at is not None]


async def find_pulls(
    repo: Repository, known: Collection[int], since: datetime, until: datetime | None = None
) -> FoundPulls:
    """Our pull requests from `since` on and before `until`; `known`: numbers in our records.

    Raises:
        GitHubError: GitHub is unavailable or rejects a request.
    """
    every, more = await repo.pulls.list_since(since)
    if more:
        every += await _load_unlisted(repo, known, {one.number for one in every})
    ours = [
        one
        for one in every
        if _is_ours(one, repo.identity)
        and (until is None or one.created_at is None or one.created_at < until)
    ]
    merged = [one for one in ours if one.merged_at is not None]
    commits, too_many = await _load_commits(repo, merged)
    back = find_reverted(repo.ref.full_name, every, commits)
    reverted = frozenset(one.number for one in merged if one.number in back)
    return FoundPulls(ours, reverted, more, too_many)


async def find_changed(repo: Repository, merged: Sequence[PullRequestFacts]) -> set[int]:
    """The numbers of the pull requests that have commits by other people; one request for each.

    Raises:
        GitHubError: GitHub is unavailable or rejects a request.
    """
    branches = await gather_bounded(
        CONCURRENCY, (repo.pulls.list_commits(one.number) for one in merged)
    )
    return {
        one.number
        for one, commits in zip(merged, branches, strict=True)
        if _has_foreign_commits(commits, repo.identity)
    }


async def find_outcomes(
    repo: Repository, known: Collection[int], since: datetime, *, most: int
) -> list[DecidedPull]:
    """What became of the latest `most` of our pull requests that are decided, newest first.

    Raises:
        GitHubError: GitHub is unavailable or rejects a request.
    """
    found = await find_pulls(repo, known, since)
    decided = [one for one in found.pulls if one.state != "open" or one.merged_at is not None]
    latest = sorted(decided, key=lambda one: one.number, reverse=True)[:most]
    changed = await find_changed(repo, [one for one in latest if one.merged_at is not None])

    def decide(pull: PullRequestFacts) -> PullOutcome:
        if pull.merged_at is None:
            return PullOutcome.CLOSED
        if pull.number in found.reverted:
            return PullOutcome.REVERTED
        return PullOutcome.CHANGED if pull.number in changed else PullOutcome.MERGED

    return [DecidedPull(one, decide(one)) for one in latest]


async def _load_unlisted(
    repo: Repository, known: Collection[int], seen: set[int]
) -> list[PullRequestFacts]:
    """Pull requests of our runs that the list did not reach, newest first."""
    latest = sorted(set(known) - seen, reverse=True)[:MAX_LOOKUPS]
    asked = await gather_bounded(CONCURRENCY, (repo.pulls.get(number) for number in latest))
    return [one for one in asked if one is not None]


async def _load_commits(
    repo: Repository, merged: Sequence[PullRequestFacts]
) -> tuple[list[CommitFacts], bool]:
    """Commits since the first merge on the base branches; and whether some are missing."""
    found: list[CommitFacts] = []
    bases: dict[str, datetime] = {}
    for one in merged:
        if one.merged_at is not None:
            bases[one.base_branch] = min(one.merged_at, bases.get(one.base_branch, one.merged_at))
    too_many = len(bases) > MAX_BASES
    for base, moment in list(bases.items())[:MAX_BASES]:
        listed, more = await repo.list_commits(base, moment)
        found += listed
        too_many = too_many or more
    return found, too_many


def _is_ours(pull: PullRequestFacts, us: Identity) -> bool:
    """Whether this is one of our fixes; settings proposals do not count."""
    own = pull.author.lower() == us.login.lower()
    return own and pull.head_branch.startswith(f"{BRANCH_PREFIX}issue-")


def _has_foreign_commits(commits: Iterable[CommitFacts], us: Identity) -> bool:
    """Whether people changed the branch; merging its base into it is no change."""
    return any(
        len(one.parents) < 2
        and one.author_type != "Bot"
        and one.author_email.lower() != us.email.lower()
        for one in commits
    )
