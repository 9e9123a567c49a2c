"""The issue as the model reads it."""

from __future__ import annotations

from collections.abc import Sequence

from bot.github.models import CommentFacts, IssueFacts
from bot.visible_text import strip_invisible, visible_text
from pipeline.types import Issue

MAX_BODY_CHARACTERS = 60_000
MAX_COMMENT_CHARACTERS = 10_000
MAX_COMMENTS = 50
"""The latest comments that are kept."""
MAX_DISCUSSION_CHARACTERS = 60_000
"""Of all comments together; the latest are kept."""


def build_issue(
    repository: str, issue: IssueFacts, comments: Sequence[CommentFacts], own_login: str
) -> Issue:
    """Each comment begins with its author's login; our own and empty ones are left out."""
    seen = [
        (comment, text)
        for comment in comments
        if comment.author.lower() != own_login.lower()
        and (text := visible_text(comment.body or ""))
    ]
    lines = [
        f"{comment.author}: {_truncate(text, MAX_COMMENT_CHARACTERS)}"
        for comment, text in seen[-MAX_COMMENTS:]
    ]
    while sum(map(len, lines)) > MAX_DISCUSSION_CHARACTERS:
        lines.pop(0)
    return Issue(
        repository=repository,
        title=strip_invisible(issue.title),
        body=_truncate(visible_text(issue.body or ""), MAX_BODY_CHARACTERS),
        discussion=tuple(lines),
    )


def _truncate(text: str, limit: int) -> str:
    return text if len(text) <= limit else f"{text[:limit]}\n[… cut …]"
