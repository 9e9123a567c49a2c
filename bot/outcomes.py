"""What became of our pull requests, and the recalibration of the confidence by it.

git writes "This reverts commit SHA" into the message, for a squash as for a merge commit; GitHub's
button writes "Reverts OWNER/NAME#N" into the description of its pull request. A revert that was
itself reverted does not count.

Our records hold the confidence of each, before any correction; GitHub shows what became of it.
What asks GitHub raises `GitHubError` if that is unavailable or rejects a request.
"""

import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from datetime import datetime, timedelta
from enum import StrEnum
from types import MappingProxyType
from typing import Final, NamedTuple

from bot.data.github_facts import CommitFacts, Identity, PullRequestFacts
from bot.data.run import RunStatus, now
from bot.github.repository import Repository
from bot.storage.history import HISTORY_DAYS, DecidedEdit, History, RunHistoryEntry
from pipeline.concurrency import gather_bounded
from pipeline.data.options import Recalibration
from pipeline.data.types import CommitSha
from pipeline.selection.scoring.confidence import MIN_OUTCOMES, fit_recalibration


class _Change(NamedTuple):
    at: datetime
    names: frozenset[str]
    """The names that others may use for it: SHAs, and `#N`."""
    reverts: tuple[str, ...]


def find_reverted(
    repository: str,
    pulls: Sequence[PullRequestFacts],
    commits: Iterable[CommitFacts],
    merges: Mapping[str, int] = MappingProxyType({}),
) -> set[int]:
    """The numbers of those of the merged `pulls` that were reverted.

    `commits` are the later commits on their base branches; `repository` is `owner/name`; `merges`
    has the numbers of pull requests by the commit that merged them.
    """
    names = {number: sha for sha, number in merges.items()}
    changes = [
        _Change(
            one.merged_at,
            frozenset({f"#{one.number}", one.head_sha, names.get(one.number, one.head_sha)}),
            _find_references(repository, one.body or ""),
        )
        for one in pulls
        if one.merged_at
    ]
    changes += [
        _Change(one.committed_at, frozenset({one.sha}), _find_references(repository, one.message))
        for one in commits
    ]
    gone: set[str] = set()
    for change in sorted(changes, key=lambda change: change.at, reverse=True):
        if gone & change.names:
            continue
        for name in change.reverts:
            gone |= _all_names(name, changes)
    return {one.number for one in pulls if one.merged_at and f"#{one.number}" in gone}


def _find_references(repository: str, text: str) -> tuple[str, ...]:
    pulls = rf"^[ \t]*Reverts (?:{re.escape(repository)})?#(\d{{1,9}})\b"
    numbers = (f"#{int(number)}" for number in re.findall(pulls, text, re.M | re.I))
    return (*_find_reverted_commits(text), *numbers)


def _find_reverted_commits(text: str) -> list[str]:
    """The SHAs, some of them abbreviated."""
    found = re.findall(r"^[ \t]*This reverts commit ([0-9a-f]{7,64})\b", text, re.M | re.I)
    return [sha.lower() for sha in found]


def _all_names(name: str, changes: Iterable[_Change]) -> set[str]:
    found = {name}
    for change in changes:
        short = not name.startswith("#") and any(one.startswith(name) for one in change.names)
        if short or name in change.names:
            found |= change.names
    return found


MAX_BASES: Final = 2
CONCURRENCY: Final = 5
"""Parallel requests to GitHub: a command must end within `bot.queue.jobs.CLAIM_SECONDS`."""


class PullOutcome(StrEnum):
    MERGED = "merged"
    CHANGED = "changed"
    CLOSED = "closed"
    REVERTED = "reverted"


class DecidedPull(NamedTuple):
    """One of our pull requests that people decided about."""

    facts: PullRequestFacts
    outcome: PullOutcome


class FoundPulls(NamedTuple):
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


async def find_pulls(repo: Repository, known: Collection[int], since: datetime) -> FoundPulls:
    """Our pull requests from `since` on; `known`: numbers in our records."""
    every, more = await repo.pulls.list_since(since)
    if more:
        every += await _load_unlisted(repo, known, {one.number for one in every})
    ours = [one for one in every if _is_ours(one, repo.identity)]
    merged = [one for one in ours if one.merged_at is not None]
    commits, too_many = await _load_commits(repo, merged)
    merges = await _find_merges(repo, commits)
    back = find_reverted(repo.ref.full_name, every, commits, merges)
    reverted = frozenset(one.number for one in merged if one.number in back)
    return FoundPulls(ours, reverted, more, too_many)


async def _find_merges(repo: Repository, commits: Sequence[CommitFacts]) -> dict[str, int]:
    """The commits reverted by `commits` that merged a pull request, with its number.

    GitHub's new versions do not say in a pull request which commit that is.
    """
    said = tuple({sha for one in commits for sha in _find_reverted_commits(one.message)})
    latest = [one.sha for one in commits if one.sha.startswith(said)][:20]

    async def find(sha: CommitSha) -> int | None:
        pull = await repo.pulls.find_merged_with(sha)
        if pull is None or await repo.issues.find_merge_commit(pull.number) != sha:
            return None  # one of several commits of a pull request
        return pull.number

    numbers = await gather_bounded(CONCURRENCY, (find(sha) for sha in latest))
    return {sha: number for sha, number in zip(latest, numbers, strict=True) if number}


async def find_changed(repo: Repository, merged: Sequence[PullRequestFacts]) -> set[int]:
    """The numbers of the pull requests that have commits by other people; one request for each."""
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
    """What became of the latest `most` of our pull requests that are decided, newest first."""
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
    latest = sorted(set(known) - seen, reverse=True)[:20]
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
    return own and re.search(r"(^|[/-])issue-\d", pull.head_branch) is not None


def _has_foreign_commits(commits: Iterable[CommitFacts], us: Identity) -> bool:
    """Whether people changed the branch; merging its base into it does not count."""
    return any(
        len(one.parents) < 2
        and one.author_type != "Bot"
        and one.author_email.lower() != us.email.lower()
        for one in commits
    )


MOST: Final = 100
"""How many of the latest decided pull requests count; each merged one costs a request a day."""


async def load_decided_edits(
    repo: Repository, history: History, language: str = ""
) -> tuple[DecidedEdit, ...]:
    """What became of our edits in the last year; GitHub is asked at most once a day.

    Empty if there cannot be `MIN_OUTCOMES` of them, and none in `language`.
    """
    known = await history.load_decided(repo.ref)
    if known is not None:
        return known
    since = now() - timedelta(days=HISTORY_DAYS)
    entries = (await history.load(repo.ref, since)).entries
    stated = [one for one in entries if one.confidence is not None and one.pull]
    if len(stated) < MIN_OUTCOMES and not any(
        language and one.language == language for one in stated
    ):
        return ()
    numbers = {one.pull for one in stated if one.pull}
    decided_pulls = await find_outcomes(repo, numbers, since, most=MOST)
    outcomes = {one.facts.number: one.outcome for one in decided_pulls}
    swapped = {one.pull for one in entries if one.status is RunStatus.SWAPPED}
    decided = tuple(_join(stated, outcomes, swapped))
    await history.save_decided(repo.ref, decided)
    return decided


async def load_recalibration(
    repo: Repository, history: History, language: str
) -> Recalibration | None:
    """The correction for a new run; None as long as fewer than `MIN_OUTCOMES` are decided.

    `language`: that of the repository, if the confidence was not fitted on edits in it; then only
    edits in it count, however few.
    """
    decided = await load_decided_edits(repo, history, language)
    told = [(one.confidence, one.right) for one in decided if one.language == language]
    return fit_recalibration(told, language)


def _join(
    stated: Iterable[RunHistoryEntry], outcomes: Mapping[int, PullOutcome], swapped: set[int | None]
) -> Iterable[DecidedEdit]:
    for one in stated:
        outcome = outcomes.get(one.pull) if one.pull else None
        if outcome is None or one.confidence is None:
            continue
        # Where people took another of our edits, what became of the pull request is not its doing.
        # A changed edit may have been wrong, or right but for a detail.
        rights = {PullOutcome.MERGED: 1.0, PullOutcome.CHANGED: 0.5}
        right = 0.0 if one.pull in swapped else rights.get(outcome, 0.0)
        yield DecidedEdit(confidence=one.confidence, right=right, language=one.language)
