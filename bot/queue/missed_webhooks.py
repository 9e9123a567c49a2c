"""What people did while no webhook came: labels, commands, stops, reviews, other settings."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from datetime import datetime, timedelta
from typing import Final

from bot.failures import judged
from bot.github.app import GitHubApp
from bot.github.errors import Forbidden, NotFound
from bot.github.models import CommentFacts, Cursor, IssueFacts
from bot.github.repository import Repository
from bot.storage.cursors import Cursors
from bot.triggers.command_text import parse
from bot.triggers.decide import Names
from bot.triggers.requests import Inspect, Order, Pace, Tend
from bot.types import Labelled, Place, RepoRef, Unwanted, now

OVERLAP: Final = timedelta(hours=1)
"""By how much GitHub's clock and ours may differ, at most."""
COMMENTS_BACK: Final = timedelta(days=2)
"""Older comments are let be: the inbox remembers for three days what was carried out."""

Found = Labelled | Unwanted | Order | Inspect | Tend


async def find_labelled(
    github: GitHubApp, names: Names, cursors: Cursors, *, pause: float = 0.0
) -> AsyncIterator[Found]:
    """What has changed in all repositories of the App since the last look, `pause` s apart.

    The first look at a repository finds every open issue with one of our labels. A repository in
    which nothing has changed costs three requests that GitHub does not count.

    Raises:
        TryLater: GitHub does not answer.
    """
    with judged():
        async for ref in github.repositories():
            try:
                async with github.repository(ref) as repo:
                    async for found in _in_repository(repo, ref, names, cursors):
                        yield found
            except (NotFound, Forbidden):  # gone, suspended, or issues are switched off there
                continue
            await asyncio.sleep(pause)


async def _in_repository(
    repo: Repository, ref: RepoRef, names: Names, cursors: Cursors
) -> AsyncIterator[Found]:
    cursor = await cursors.get(ref)
    if cursor is None:
        later = Cursor(since=(now() - OVERLAP).replace(microsecond=0))
        issues = [i for label in names.labels async for i in repo.issues.find_labelled(label)]
    else:
        issues, later = await repo.issues.changed(cursor)
    look = _labelled if cursor is None else _touched
    for issue in issues:
        async for found in look(repo, ref, issue, names):
            yield found
    comments, later = await repo.issues.commented(later, _since(later.comments_since))
    for order in [_order(ref, comment, names) for comment in comments]:
        if order is not None:
            yield order
    lines, later = await repo.pulls.commented(later, _since(later.lines_since))
    for line in lines:
        if line.author_type != "Bot":
            yield _order(ref, line, names) or _reviewed(ref, line)
    await cursors.set(ref, later)  # only now: what was found has been dealt with


async def _touched(
    repo: Repository, ref: RepoRef, issue: IssueFacts, names: Names
) -> AsyncIterator[Found]:
    if issue.pull_request is not None or issue.state != "open":
        yield _tend(ref, issue)
    if issue.pull_request is not None:
        head = await repo.pulls.head(issue.number) if issue.state == "open" else None
        if head is not None:
            delivery = f"sweep-{issue.number}-{head}"
            yield Inspect(repo=ref, pull=issue.number, head=head, delivery=delivery)
        if issue.state == "open":
            yield Unwanted(repo=ref, issue=issue.number, closed=False, labels=issue.labels)
        return
    async for found in _labelled(repo, ref, issue, names):
        yield found
    yield Unwanted(repo=ref, issue=issue.number, closed=issue.state != "open", labels=issue.labels)


async def _labelled(
    repo: Repository, ref: RepoRef, issue: IssueFacts, names: Names
) -> AsyncIterator[Labelled]:
    if issue.state != "open":
        return
    for label in issue.labels:
        mode = names.mode_of(label)
        put = await repo.issues.labelled_by(issue.number, label) if mode is not None else None
        if put is not None and mode is not None:
            actor, at = put
            yield Labelled(repo=ref, issue=issue.number, actor=actor, at=at, label=label, mode=mode)


def _tend(ref: RepoRef, touched: IssueFacts) -> Tend:
    """A pull request that may be ours has changed, or an issue that has one is closed."""
    at = touched.updated_at.timestamp() if touched.updated_at else 0
    return Tend(
        repo=ref,
        about="issue" if touched.pull_request is None else "pull",
        number=touched.number,
        delivery=f"sweep-{ref.full_name}-{touched.number}-{at:.0f}",
    )


def _reviewed(ref: RepoRef, line: CommentFacts) -> Tend:
    return Tend(
        repo=ref,
        about="pull",
        number=line.issue,
        pace=Pace.QUIET,
        by=line.author,
        delivery=f"sweep-review-comment-{line.id}",
    )


def _since(seen: datetime | None) -> datetime:
    since = seen or now() - OVERLAP
    return max(since, now() - COMMENTS_BACK).replace(microsecond=0)


def _order(ref: RepoRef, comment: CommentFacts, names: Names) -> Order | None:
    """The command in a comment. One that was edited may once have been none, and is let be."""
    at, number = comment.created_at, comment.issue
    if at is None or not number or comment.edited or comment.author_type == "Bot":
        return None
    command = parse(comment.body or "", names.app)
    if command is None:
        return None
    place = Place.PULL if comment.on_pull else Place.ISSUE
    return Order(
        repo=ref,
        issue=number,
        place=Place.REVIEW if comment.on_line else place,
        comment=comment.id,
        by=comment.author,
        at=at,
        command=command,
        delivery=f"sweep-{'line' if comment.on_line else 'comment'}-{comment.id}",
    )
