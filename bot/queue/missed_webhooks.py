"""What people did while no webhook came: labels, commands, stops, reviews, other settings."""

import asyncio
from collections.abc import AsyncIterator
from datetime import datetime, timedelta
from typing import Final

from bot.data.github_facts import CommentFacts, Cursor, IssueFacts, ReviewFacts
from bot.data.request import (
    SWEEP_PREFIX,
    CommandRequest,
    ConfigCheckRequest,
    Delay,
    IssueRemark,
    MissedEvent,
    PullUpdate,
    RunRequest,
    SetUpRequest,
)
from bot.data.run import CommentLocation, IssueSnapshot, RepoRef, now
from bot.errors import Forbidden, NotFound, Unprocessable, translate_errors
from bot.github.app import GitHubApp
from bot.github.repository import Repository
from bot.storage.workers import Cursors
from bot.webhooks.command_text import parse_command
from bot.webhooks.labels import BotNames

CLOCK_OVERLAP: Final = timedelta(hours=1)
"""By how much GitHub's clock and ours may differ, at most."""

REPOSITORY_SECONDS: Final = 0.4
"""Between two repositories, at most. Each is asked three times, so that a look takes half of the
900 requests a minute that GitHub allows, whether or not they count against the hourly limit
(docs.github.com/rest/using-the-rest-api/rate-limits-for-the-rest-api)."""


async def find_missed_events(
    github: GitHubApp, names: BotNames, cursors: Cursors, *, pause: float = 0.0
) -> AsyncIterator[MissedEvent]:
    """What has changed in all repositories of the App since the last look, `pause` s apart.

    The first look at a repository finds every open issue with one of our labels. A repository in
    which nothing has changed costs three requests that GitHub does not count.

    Raises:
        TryLater: GitHub does not answer.
    """
    with translate_errors():
        async for ref in github.list_repositories():
            try:
                async with github.look_into(ref) as repo:
                    async for found in find_in_repository(repo, ref, names, cursors):
                        yield found
            except (NotFound, Forbidden, Unprocessable):
                continue  # gone, suspended, locked, or issues are switched off there
            await asyncio.sleep(pause)


async def find_in_repository(
    repo: Repository, ref: RepoRef, names: BotNames, cursors: Cursors
) -> AsyncIterator[MissedEvent]:
    """What has changed in one repository since the last look. Raises GitHubError."""
    names = names.with_slug(repo.identity.slug)
    cursor = await cursors.get(ref)
    if cursor is None:
        later = Cursor(since=(now() - CLOCK_OVERLAP).replace(microsecond=0))
        yield SetUpRequest(repo=ref, delivery="sweep")
        labels = names.labels.modes
        issues = [i for label in labels async for i in repo.issues.list_with_label(label)]
    else:
        issues, later = await repo.issues.list_changed(cursor)
    look = find_labels if cursor is None else _find_on_issue
    for issue in issues:
        async for found in look(repo, ref, issue, names):
            yield found
    comments, later = await repo.issues.list_changed_comments(
        later, _comments_since(later.comments_since)
    )
    for comment in comments:
        if order := await _to_command(repo, ref, comment, names):
            yield order
    lines, later = await repo.pulls.list_changed_comments(later, _comments_since(later.lines_since))
    for line in lines:
        if line.author_type != "Bot":
            yield await _to_command(repo, ref, line, names) or PullUpdate(
                repo=ref,
                target="pull",
                number=line.issue,
                delay=Delay.DEBOUNCED,
                by=line.author,
                comment=line.id,
                delivery=f"sweep-review-comment-{line.id}",
            )
    await cursors.set(ref, later)  # only now: what was found has been dealt with


async def _find_on_issue(
    repo: Repository, ref: RepoRef, issue: IssueFacts, names: BotNames
) -> AsyncIterator[MissedEvent]:
    if issue.pull_request is not None or issue.state != "open":
        at = issue.updated_at.timestamp() if issue.updated_at else 0
        yield PullUpdate(
            repo=ref,
            target="issue" if issue.pull_request is None else "pull",
            number=issue.number,
            delivery=f"sweep-{ref.id}-{issue.number}-{at:.0f}",
        )
    if issue.pull_request is not None:
        pull = await repo.pulls.get(issue.number) if issue.state == "open" else None
        if pull is not None:
            head = pull.head_sha
            delivery = f"sweep-{issue.number}-{head}"
            yield ConfigCheckRequest(repo=ref, pull=issue.number, head=head, delivery=delivery)
        if pull is not None and repo.issues.is_own(pull.author):
            async for review in repo.pulls.list_reviews(issue.number):
                if order := _to_review_command(ref, issue.number, review, names):
                    yield order
        if issue.state == "open":
            yield IssueSnapshot(repo=ref, issue=issue.number, closed=False, labels=issue.labels)
        return
    async for found in find_labels(repo, ref, issue, names):
        yield found
    yield IssueSnapshot(
        repo=ref, issue=issue.number, closed=issue.state != "open", labels=issue.labels
    )


async def find_labels(
    repo: Repository, ref: RepoRef, issue: IssueFacts, names: BotNames
) -> AsyncIterator[RunRequest]:
    """Our labels on an open issue, and who put them there. Raises GitHubError."""
    if issue.state != "open":
        return
    for label in issue.labels:
        mode = names.labels.mode_of(label)
        put = await repo.issues.find_labeler(issue.number, label) if mode is not None else None
        if put is not None and mode is not None:
            actor, at = put
            yield RunRequest(
                repo=ref,
                issue=issue.number,
                asked_by=actor,
                delivery=f"{SWEEP_PREFIX}{ref.id}-{issue.number}-{at.timestamp():.0f}",
                mode=mode,
                label=label,
                found_at=at,
            )


def _comments_since(seen: datetime | None) -> datetime:
    since = seen or now() - CLOCK_OVERLAP
    # The queue remembers for three days which requests it completed.
    return max(since, now() - timedelta(days=2)).replace(microsecond=0)


def _to_review_command(
    ref: RepoRef, pull: int, review: ReviewFacts, names: BotNames
) -> CommandRequest | None:
    """The command in a review's own text; None for none, and for one that is forgotten by now."""
    at = review.submitted_at
    if at is None or at < _comments_since(at) or review.author_type == "Bot":
        return None
    command = parse_command(review.body or "", *names.called)
    if command is None:
        return None
    return CommandRequest(
        repo=ref,
        issue=pull,
        location=CommentLocation.REVIEW_TEXT,
        comment=review.id,
        node_id=review.node_id,
        by=review.author,
        at=at,
        command=command,
        delivery=f"sweep-review-{review.id}",
    )


async def _to_command(
    repo: Repository, ref: RepoRef, comment: CommentFacts, names: BotNames
) -> CommandRequest | IssueRemark | None:
    """The command in a comment, or what it says on an issue.

    An edited one has the same id as before: if that had its answer, so has this. The command is
    its last editor's.
    """
    at, number, by = comment.created_at, comment.issue, comment.author
    if at is None or not number or comment.author_type == "Bot":
        return None
    command = parse_command(comment.body or "", *names.called)
    if comment.is_edited:
        if command is None or not command.begins_line or at < _comments_since(at):
            return None
        at, by = comment.updated_at, await repo.issues.find_editor(comment) or by
    if command is None and (comment.is_on_pull or comment.is_on_line):
        return None
    if command is None:
        return IssueRemark(
            repo=ref,
            issue=number,
            remark=comment.id,
            by=by,
            at=at,
            delivery=f"sweep-comment-{comment.id}",
        )
    place = CommentLocation.PULL if comment.is_on_pull else CommentLocation.ISSUE
    return CommandRequest(
        repo=ref,
        issue=number,
        location=CommentLocation.REVIEW if comment.is_on_line else place,
        comment=comment.id,
        by=by,
        at=at,
        command=command,
        delivery=f"sweep-{'line' if comment.is_on_line else 'comment'}-{comment.id}",
    )
