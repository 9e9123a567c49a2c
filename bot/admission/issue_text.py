"""The issue as the model reads it, fixed when the run begins."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from bot.admission.check import Admission
from bot.admission.trust import CommentFilter, is_edited_since, restore_requested_version
from bot.data.github_facts import CommentFacts, IssueFacts
from bot.data.run import IssueVersion, Login
from bot.errors import RunRefused
from bot.github.repository import Repository
from bot.storage.keys import ISSUE_KEY
from bot.storage.lease import Lease
from bot.storage.runs import VERSION_KEY
from bot.visible_text import strip_invisible, visible_text
from pipeline.data.types import Issue
from sandbox.frozen import replace

MAX_COMMENTS = 50
"""The latest comments that are kept."""
MAX_DISCUSSION_CHARACTERS = 60_000
"""Of all comments together; the latest are kept."""


async def load_issue(repo: Repository, lease: Lease, admission: Admission) -> Issue:
    """The text that the run answers. The first worker saves it, and all later ones use that.

    Raises:
        RunRefused: the issue was edited after the request, and the text that the requester saw is
            unknown.
        GitHubError, LeaseLost.
    """
    store, run = lease.checkpoints, lease.run
    saved = await store.load(ISSUE_KEY, Issue)
    if saved is not None:
        return saved
    requested = await store.load(VERSION_KEY, IssueVersion)
    if requested is None and await is_edited_since(repo, admission.issue, run.asked_at):
        raise RunRefused("edited")
    comments = repo.issues.list_comments(run.issue, count=admission.issue.comments)
    comment_filter = CommentFilter(repo, admission.issue, admission.config, run.asked_at)
    kept, skipped = await comment_filter.apply(comments)
    facts, edited = restore_requested_version(admission.issue, requested)
    await lease.save(replace(run, skipped=replace(skipped, edited=edited)))
    # In a thread: to render a hostile text takes up to a second.
    issue = await asyncio.to_thread(
        build_issue, admission.facts.full_name, facts, kept, repo.identity.login
    )
    await store.save(ISSUE_KEY, issue)
    return issue


def build_issue(
    repository: str, issue: IssueFacts, comments: Sequence[CommentFacts], own_login: Login
) -> Issue:
    """Each comment begins with its author's login; our own and empty ones are left out."""
    lines: list[str] = []
    for comment in reversed(comments):
        if comment.author.lower() == own_login.lower():
            continue
        if text := visible_text(comment.body or ""):
            lines.insert(0, f"{comment.author}: {_truncate(text, 10_000)}")
        if len(lines) == MAX_COMMENTS or sum(map(len, lines)) > MAX_DISCUSSION_CHARACTERS:
            break
    while sum(map(len, lines)) > MAX_DISCUSSION_CHARACTERS:
        lines.pop(0)
    return Issue(
        repository=repository,
        number=issue.number,
        title=strip_invisible(issue.title),
        body=_truncate(visible_text(issue.body or ""), 60_000),
        discussion=tuple(lines),
    )


def _truncate(text: str, limit: int) -> str:
    return text if len(text) <= limit else f"{text[:limit]}\n[… cut …]"
