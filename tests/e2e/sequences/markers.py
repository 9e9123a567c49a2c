"""What the parts of the model share: marks of what is said once."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from typing import Final

from bot.data.run import Run
from capuchin_demo.hub.state import Issue
from tests.e2e.sequences.simulation import World

MARKER: Final = re.compile(r"<!-- (capuchin:[^>]*) -->")


def is_of(run: Run, issue: Issue) -> bool:
    return (run.repo.full_name, run.issue) == (issue.repo.full_name, issue.number)


def comments_twice(issue: Issue, world: World) -> Iterator[str]:
    """Each comment of ours has its marker, and no marker stands twice."""
    ours = [c for c in issue.comments if c.author is world.hub.bot]
    for comment in ours:
        if not MARKER.findall(comment.body):
            yield f"a comment without its marker: {comment.body[:80]!r}"
    for marker, count in Counter(m for c in ours for m in MARKER.findall(c.body)).items():
        if count > 1:
            yield f"{count} comments {marker} on #{issue.number}"


def holds(issue: Issue, marker: str, world: World) -> bool:
    """Whether we said something that holds `marker`."""
    return any(marker in c.body for c in issue.comments if c.author is world.hub.bot)
