"""Finds merged pull requests that were reverted, by the texts of commits and pull requests.

git writes "This reverts commit SHA" into the message; GitHub's button writes "Reverts OWNER/NAME#N"
into the description of its pull request. A revert that was itself reverted does not count.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from datetime import datetime
from typing import Final, NamedTuple

from bot.github.models import CommitFacts, PullRequestFacts

_REVERTS_COMMIT: Final = re.compile(r"^[ \t]*This reverts commit ([0-9a-f]{7,64})\b", re.M | re.I)
_REVERTS_PULL: Final = r"^[ \t]*Reverts (?:{repository})?#(\d{{1,9}})\b"


class _Change(NamedTuple):
    at: datetime
    names: frozenset[str]
    """The names that others may use for it: SHAs, and `#N`."""
    reverts: tuple[str, ...]


def find_reverted(
    repository: str, pulls: Sequence[PullRequestFacts], commits: Iterable[CommitFacts]
) -> set[int]:
    """The numbers of those of the merged `pulls` that were reverted.

    `commits` are the later commits on their base branches; `repository` is `owner/name`.
    """
    changes = [_pull_change(repository, one, one.merged_at) for one in pulls if one.merged_at]
    changes += [_commit_change(repository, one) for one in commits]
    gone: set[str] = set()
    for change in sorted(changes, key=lambda change: change.at, reverse=True):
        if gone & change.names:
            continue
        for name in change.reverts:
            gone |= _all_names(name, changes)
    return {one.number for one in pulls if one.merged_at and f"#{one.number}" in gone}


def _pull_change(repository: str, pull: PullRequestFacts, at: datetime) -> _Change:
    names = {f"#{pull.number}", pull.head_sha, pull.merge_commit_sha or pull.head_sha}
    return _Change(at, frozenset(names), _find_references(repository, pull.body or ""))


def _commit_change(repository: str, commit: CommitFacts) -> _Change:
    names = frozenset({commit.sha})
    return _Change(commit.committed_at, names, _find_references(repository, commit.message))


def _find_references(repository: str, text: str) -> tuple[str, ...]:
    pulls = re.compile(_REVERTS_PULL.format(repository=re.escape(repository)), re.M | re.I)
    numbers = (f"#{int(number)}" for number in pulls.findall(text))
    return (*(sha.lower() for sha in _REVERTS_COMMIT.findall(text)), *numbers)


def _all_names(name: str, changes: Iterable[_Change]) -> set[str]:
    """All names of the changes that `name` means; a SHA may be abbreviated."""
    found = {name}
    for change in changes:
        short = not name.startswith("#") and any(one.startswith(name) for one in change.names)
        if short or name in change.names:
            found |= change.names
    return found
