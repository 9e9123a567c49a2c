"""Splits issues by repository and time, and counts what both sides share."""

from __future__ import annotations

import hashlib
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from pipeline.learning.locations import shingle_diff, shingle_text, similarity
from pipeline.learning.records import SolvedIssue
from pipeline.learning.rows import Split

TEST_SHARE = 0.2
"""The share of repositories that are kept apart, at least one."""
DUPLICATE = 0.8
"""From this similarity on, two issues or two edits are near duplicates."""
_LEAST_SHINGLES = 4
"""Shorter texts are duplicates only if they are equal: `return None` is in many edits."""
_COMMON = 300
"""A shingle in more texts than that, such as a licence's, tells none of them apart."""


@dataclass
class SplitIssues:
    """Which issue is on which side, and why some are on none."""

    sides: dict[str, Split] = field(default_factory=dict[str, Split])
    left_out: Counter[str] = field(default_factory=Counter[str])
    until: str = ""
    """Training ends before this time, and the test begins with it."""


def repository_key(repository: str) -> str:
    """The same for a repository and its forks."""
    return repository.rpartition("/")[2].lower()


def split_issues(issues: Sequence[SolvedIssue], until: str = "") -> SplitIssues:
    """Split issues by repository and time.

    A fifth of the repositories, chosen by their names' digests, is kept apart. Issues of the others
    closed from `until` on, and issues of those closed before, are left out. The default is the
    median date of the repositories kept apart; undated issues count for training only.
    """
    apart = _choose_test_repositories({repository_key(one.repository) for one in issues})
    dates = sorted(
        one.closed for one in issues if one.closed and repository_key(one.repository) in apart
    )
    found = SplitIssues(until=until or (dates[len(dates) // 2] if dates else ""))
    for one in issues:
        if repository_key(one.repository) in apart:
            if one.closed and one.closed >= found.until:
                found.sides[one.id] = "test"
            else:
                found.left_out["test repository, before the date"] += 1
        elif one.closed and found.until and one.closed >= found.until:
            found.left_out["training repository, from the date on"] += 1
        else:
            found.sides[one.id] = "train"
    return found


def _choose_test_repositories(keys: Iterable[str]) -> frozenset[str]:
    ordered = sorted(keys, key=lambda key: hashlib.sha256(key.encode()).hexdigest())
    if len(ordered) < 2:
        return frozenset()
    return frozenset(ordered[: max(1, round(TEST_SHARE * len(ordered)))])


@dataclass(frozen=True)
class Leaks:
    """What training and test share; the issues are those of the training side."""

    repositories: frozenset[str]
    issues: frozenset[str]
    patches: frozenset[str]

    @property
    def count(self) -> int:
        return len(self.repositories) + len(self.issues) + len(self.patches)


def find_leaks(
    issues: Iterable[SolvedIssue],
    diffs: Iterable[tuple[str, str]],
    sides: Mapping[str, Split],
) -> Leaks:
    """What is on both sides: repositories and their forks, issues, and near-duplicate edits.

    `diffs` holds pairs of an issue and an edit for it, the developers' own among them.
    """
    placed = [one for one in issues if one.id in sides]
    keys: dict[str, set[str]] = {"train": set(), "test": set()}
    for one in placed:
        keys[sides[one.id]].add(repository_key(one.repository))
    shared = keys["train"] & keys["test"]
    texts = [(one.id, shingle_text(f"{one.title}\n{one.body}")) for one in placed]
    edits = {(i, shingle_diff(diff)) for i, diff in diffs if i in sides and diff.strip()}
    return Leaks(
        repositories=frozenset(shared),
        issues=_find_duplicates(texts, sides),
        patches=_find_duplicates(edits, sides),
    )


def _find_duplicates(
    texts: Iterable[tuple[str, frozenset[int]]], sides: Mapping[str, Split]
) -> frozenset[str]:
    """The training issues with a text that is nearly one of the test's."""
    tests = list({words for name, words in texts if sides[name] == "test" and words})
    index: dict[int, list[int]] = defaultdict(list)
    for number, words in enumerate(tests):
        for word in words:
            index[word].append(number)
    equal = set(tests)
    found: set[str] = set()
    for name, words in texts:
        if sides[name] != "train" or name in found or not words:
            continue
        if words in equal or _is_near(words, tests, index):
            found.add(name)
    return frozenset(found)


def _is_near(
    words: frozenset[int], tests: Sequence[frozenset[int]], index: Mapping[int, list[int]]
) -> bool:
    if len(words) < _LEAST_SHINGLES:
        return False
    shared: Counter[int] = Counter()
    for word in words:
        numbers = index.get(word, ())
        if len(numbers) <= _COMMON:
            shared.update(numbers)
    return any(
        count * 2 >= len(words) * DUPLICATE and similarity(words, tests[number]) >= DUPLICATE
        for number, count in shared.most_common(50)
    )
