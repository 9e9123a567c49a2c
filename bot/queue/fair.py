"""Whose turn it is: owners of repositories take turns, so that none waits for all of another."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping

from bot.types import Run


def owner_of(run: Run) -> str:
    """The organisation or person whose turn it is; GitHub ignores case in names."""
    return run.repo.owner.casefold()


def order_fairly(
    waiting: Iterable[Run], working: Iterable[Run], served: Mapping[str, float]
) -> list[Run]:
    """The waiting runs in the order in which they begin.

    Runs that have begun before come first: they hold what was paid for. Of the others each owner's
    n-th comes before anybody's (n+1)-th, where what the owner has at work counts; among equals the
    owner comes first who was served longest ago (`served`: when, in seconds), then the older run.
    """
    taken = Counter(map(owner_of, working))
    ordered: list[tuple[tuple[int, float], Run]] = []
    for run in sorted(waiting, key=lambda run: (run.created_at, run.id)):
        owner = owner_of(run)
        if run.starts:
            ordered.append(((-1, 0.0), run))
        else:
            ordered.append(((taken[owner], served.get(owner, 0.0)), run))
            taken[owner] += 1
    ordered.sort(key=lambda entry: entry[0])  # stable: the older stays first
    return [run for _, run in ordered]
